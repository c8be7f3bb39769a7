# Finds the system libraries that Brasa is linked with. The build includes this file, and so does the
# installed package, for users of the static library.

# brasa_parts(<missing>): defines brasa::blis, brasa::xxhash, brasa::jansson and brasa::utf8proc, and sets
# <missing> to a list of those that were not found, each with the Debian package that contains it.
function(brasa_parts missing)
  set(absent "")
  foreach(part "blis blis.h libblis-dev" "xxhash xxhash.h libxxhash-dev"
               "jansson jansson.h libjansson-dev" "utf8proc utf8proc.h libutf8proc-dev")
    separate_arguments(part)
    list(GET part 0 name)
    list(GET part 1 header)
    list(GET part 2 package)
    brasa_part(${name} ${header} ${name} found)
    if(NOT found)
      list(APPEND absent "${name} (Debian package ${package})")
    endif()
  endforeach()
  set(${missing} "${absent}" PARENT_SCOPE)
endfunction()

# brasa_part(<name> <header> <library> <found>): defines the imported target brasa::<name> if both the header
# and the library exist.
function(brasa_part name header library found)
  find_path(BRASA_${name}_INCLUDE_DIR ${header} PATH_SUFFIXES ${name})
  find_library(BRASA_${name}_LIBRARY ${library})
  mark_as_advanced(BRASA_${name}_INCLUDE_DIR BRASA_${name}_LIBRARY)
  set(${found} FALSE PARENT_SCOPE)
  if(BRASA_${name}_INCLUDE_DIR AND BRASA_${name}_LIBRARY)
    set(${found} TRUE PARENT_SCOPE)
    if(NOT TARGET brasa::${name})
      add_library(brasa::${name} INTERFACE IMPORTED)
      target_include_directories(brasa::${name} SYSTEM INTERFACE ${BRASA_${name}_INCLUDE_DIR})
      target_link_libraries(brasa::${name} INTERFACE ${BRASA_${name}_LIBRARY})
    endif()
  endif()
endfunction()
