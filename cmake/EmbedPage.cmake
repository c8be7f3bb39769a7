# Writes the files of viz/attention/ as arrays into a C source:
#   cmake -DPARTS="page.html;style.css;one.js;two.js" -DOUTPUT=page.c -P EmbedPage.cmake
# The scripts become one, in the order given. Comments, indentation and empty lines stay behind, a
# quarter of the bytes; so no string of theirs may go over several lines, or have the signs of a comment.

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

set(source "/* Made of viz/attention/ by cmake/EmbedPage.cmake. */\n")
foreach(name page style script)
  string(HEX "${${name}}" bytes)
  string(REGEX REPLACE "(................................)" "\\1\n" lines ${bytes})
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," lines ${lines})
  string(APPEND source "extern const char br__attention_${name}[];\n"
         "const char br__attention_${name}[] = {\n${lines}0\n};\n")
endforeach()
file(WRITE ${OUTPUT} "${source}")
