// What a libFuzzer program begins with where bytes alone would take it years to find a checksum or a table of
// fields: the inputs that are right, which the same fuzzer as a test mutates. `NAME_fuzz --corpus FOLDER`
// writes them (scripts/fuzz.sh).
#pragma once

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace paceline::testing {

// The folder that the command line asks for them in, or null.
inline const char* corpus_folder(int argc, char** argv) {
  return argc == 3 && std::strcmp(argv[1], "--corpus") == 0 ? argv[2] : nullptr;
}

// One file each, in a folder that is there. The exit status.
inline int write_corpus(const std::string& folder, const std::vector<std::string>& inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string path = folder + "/right-" + std::to_string(i);
    std::ofstream file(path, std::ios::binary);
    file << inputs[i];
    if (file.flush()) continue;
    std::fprintf(stderr, "cannot write %s\n", path.c_str());
    return 1;
  }
  return 0;
}

}  // namespace paceline::testing
