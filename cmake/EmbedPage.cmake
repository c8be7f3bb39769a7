# Writes the files of viz/attention/ as arrays into a C source:
#   cmake -DPARTS="page.html;style.css;one.js;two.js" -DOUTPUT=page.c -P EmbedPage.cmake
# The page is embedded unchanged. The style and the scripts, concatenated in the given order, are compressed
# with gzip as the HTML fragment that the page inserts into its head. Their comments, indentation and empty
# lines are removed, so strings in them must not span lines or contain comment delimiters.

set(page)
set(style)
set(script)
foreach(part IN LISTS PARTS)
  file(READ ${part} text)
  if(part MATCHES "\\.html$")
    string(APPEND page "${text}")
    continue()
  endif()
  string(REGEX REPLACE "/\\*[^*]*\\*+([^/*][^*]*\\*+)*/" "" text "${text}")
  string(REGEX REPLACE "[ \n]*\n *" "\n" text "${text}")
  if(part MATCHES "\\.css$")
    string(APPEND style "${text}")
  else()
    string(APPEND script "${text}")
  endif()
endforeach()
string(HEX "${page}" page)

set(parts ${OUTPUT}.parts)
file(WRITE ${parts} "<style>${style}</style><script type=\"module\">${script}</script>")
file(ARCHIVE_CREATE OUTPUT ${parts}.gz PATHS ${parts} FORMAT raw COMPRESSION GZip COMPRESSION_LEVEL 9)
file(READ ${parts}.gz packed HEX)
file(REMOVE ${parts} ${parts}.gz)
# Zeroes bytes 4 to 7, the time, which would make builds irreproducible.
string(REGEX REPLACE "^(1f8b08..)........" "\\100000000" packed ${packed})

set(source "/* Generated from viz/attention/ by cmake/EmbedPage.cmake. */\n#include <stddef.h>\n")
foreach(name page packed)
  string(REGEX REPLACE "(................................)" "\\1\n" lines ${${name}})
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," lines ${lines})
  string(APPEND source "extern const char br__attention_${name}[];\n"
         "const char br__attention_${name}[] = {\n${lines}0\n};\n")
endforeach()
string(APPEND source "extern const size_t br__attention_packed_size;\n"
       "const size_t br__attention_packed_size = sizeof br__attention_packed - 1;\n")
file(WRITE ${OUTPUT} "${source}")
