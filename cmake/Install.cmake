# Defines what `cmake --install` installs. No installed file contains the path of the build folder or the
# prefix, so that an installed tree can be moved.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The installed targets: the libraries, the command if there is one, and the plug-ins for MPI.
set(installed brasa brasa_static)
foreach(target brasa_cli brasa_mpi_openmpi brasa_mpi_mpich)
  if(TARGET ${target})
    list(APPEND installed ${target})
  endif()
endforeach()

# `cmake --install` builds nothing. If only some targets were built, as by ./run, this builds the others first.
set(installed_files "")
foreach(target IN LISTS installed)
  string(APPEND installed_files " \"$<TARGET_FILE:${target}>\"")
endforeach()
string(REPLACE ";" " " installed_words "${installed}")
install(CODE "
  foreach(file ${installed_files})
    if(NOT EXISTS \"\${file}\")
      message(STATUS \"Building ${installed_words}, because \${file} was not built\")
      execute_process(COMMAND \"${CMAKE_COMMAND}\" --build \"${CMAKE_BINARY_DIR}\" --config \"\${CMAKE_INSTALL_CONFIG_NAME}\"
                              --parallel --target ${installed_words} RESULT_VARIABLE status)
      if(NOT status EQUAL 0)
        message(FATAL_ERROR \"The build failed; nothing was installed\")
      endif()
      break()
    endif()
  endforeach()")

set(BRASA_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/brasa)

install(DIRECTORY include/brasa DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h
        PATTERN *.hpp)
# There are two export sets, because users of the shared library do not need the dependencies of the static
# library.
install(TARGETS brasa EXPORT brasaTargets INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS brasa_static EXPORT brasaStaticTargets
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET brasa_cli)
  install(TARGETS brasa_cli)
  install(FILES data/frases.txt DESTINATION ${CMAKE_INSTALL_DATADIR}/brasa)
endif()

foreach(name openmpi mpich)
  if(TARGET brasa_mpi_${name})
    install(TARGETS brasa_mpi_${name} DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()

install(EXPORT brasaTargets NAMESPACE brasa:: DESTINATION ${BRASA_PACKAGE_DIR})
install(EXPORT brasaStaticTargets NAMESPACE brasa:: DESTINATION ${BRASA_PACKAGE_DIR})
# These files are made in a subfolder, in which find_package() does not look if the build folder is in PATH.
set(package_files ${CMAKE_CURRENT_BINARY_DIR}/package_files)
configure_package_config_file(cmake/brasaConfig.cmake.in ${package_files}/brasaConfig.cmake
                              INSTALL_DESTINATION ${BRASA_PACKAGE_DIR})
# While the major version is 0, every minor version may change the interface.
write_basic_package_version_file(${package_files}/brasaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${package_files}/brasaConfig.cmake ${package_files}/brasaConfigVersion.cmake cmake/BrasaParts.cmake
        DESTINATION ${BRASA_PACKAGE_DIR})

# brasa.pc derives the prefix from its own location; folders given as absolute paths stay absolute.
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
# Library folders that the linker does not search by default.
set(BRASA_PC_FOLDERS "")
foreach(part blis xxhash jansson utf8proc)
  get_filename_component(dir "${BRASA_${part}_LIBRARY}" DIRECTORY)
  if(NOT dir IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
    string(APPEND BRASA_PC_FOLDERS " -L${dir}")
  endif()
endforeach()
configure_file(cmake/brasa.pc.in brasa.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/brasa.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
