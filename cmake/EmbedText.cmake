# cmake -DIN=file -DOUT=file.cc -DNAME=function -P EmbedText.cmake: a source file whose function paceline::NAME() is the
# text of IN. A raw string, so that nothing of the text is escaped, and the compiler caches it like any other source.
file(READ ${IN} text)
string(FIND "${text}" ")paceline\"" end)
if(NOT end EQUAL -1)
  message(FATAL_ERROR "${IN}: contains )paceline\", which would end the string it is put into")
endif()
file(WRITE ${OUT} "#include <string_view>\n\nnamespace paceline {\n\nstd::string_view ${NAME}();\n"
  "std::string_view ${NAME}() {\n  return R\"paceline(${text})paceline\";\n}\n\n}  // namespace paceline\n")
