# What `cmake --install` puts where. Nothing installed names the folder it was built in or the prefix,
# so that an installed tree may be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(BRASA_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/brasa)

install(DIRECTORY include/brasa DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)
# Two export sets: who uses the shared library need not have what the static one leans on.
install(TARGETS brasa EXPORT brasaTargets INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS brasa_static EXPORT brasaStaticTargets
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET brasa_cli)
  install(TARGETS brasa_cli)
  install(FILES data/frases.txt DESTINATION ${CMAKE_INSTALL_DATADIR}/brasa)
endif()

install(EXPORT brasaTargets NAMESPACE brasa:: DESTINATION ${BRASA_PACKAGE_DIR})
install(EXPORT brasaStaticTargets NAMESPACE brasa:: DESTINATION ${BRASA_PACKAGE_DIR})
configure_package_config_file(cmake/brasaConfig.cmake.in brasaConfig.cmake
                              INSTALL_DESTINATION ${BRASA_PACKAGE_DIR})
# While the major version is 0 every minor version may change the interface.
write_basic_package_version_file(brasaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/brasaConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/brasaConfigVersion.cmake cmake/BrasaParts.cmake
        DESTINATION ${BRASA_PACKAGE_DIR})

# brasa.pc finds the prefix from its own place; folders given as absolute paths stay so.
set(pc_dir ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH BRASA_PC_TO_PREFIX ${pc_dir} ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" BRASA_PC_TO_PREFIX ${BRASA_PC_TO_PREFIX})
foreach(dir LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${dir}}")
    set(BRASA_PC_${dir} ${CMAKE_INSTALL_${dir}})
  else()
    set(BRASA_PC_${dir} "\${prefix}/${CMAKE_INSTALL_${dir}}")
  endif()
endforeach()
configure_file(cmake/brasa.pc.in brasa.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/brasa.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
