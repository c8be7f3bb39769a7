# Writes the files of viz/attention/ as arrays into a C source:
#   cmake -DPARTS="page.html;style.css;one.js;two.js" -DOUTPUT=page.c -P EmbedPage.cmake
# The scripts become one, in the order given.

set(page)
set(style)
set(script)
foreach(part IN LISTS PARTS)
  file(READ ${part} bytes HEX)
  if(part MATCHES "\\.html$")
    string(APPEND page ${bytes})
  elseif(part MATCHES "\\.css$")
    string(APPEND style ${bytes})
  else()
    string(APPEND script ${bytes})
  endif()
endforeach()

set(source "/* Made of viz/attention/ by cmake/EmbedPage.cmake. */\n")
foreach(name page style script)
  string(REGEX REPLACE "(................................)" "\\1\n" lines ${${name}})
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," lines ${lines})
  string(APPEND source "extern const char br__attention_${name}[];\n"
         "const char br__attention_${name}[] = {\n${lines}0\n};\n")
endforeach()
file(WRITE ${OUTPUT} "${source}")
