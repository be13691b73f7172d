#include "tools/keygen.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "common/config/command_line.h"
#include "common/wire/keys.h"

namespace paceline {

int keygen(const KeygenOptions& options, std::ostream& out, std::ostream& err) {
  const auto files = wire::make_keys(options.out, options.nodes);
  if (!files) {
    err << "paceline keygen: " << files.status().message() << "\n";
    return files.status().code() == StatusCode::kFailedPrecondition ? kExitUsage : kExitFailedRun;
  }
  const std::string node = options.nodes ? "node-I" : "node";
  out << options.out << ": " << files->size()
      << " files. security.keys names such a folder on each machine, with\n"
      << "  a server:  server.key and " << node << ".pub" << (options.nodes ? " of every node" : "") << "\n"
      << "  " << (options.nodes ? "node I:    " : "each node: ") << node << ".key and server.pub\n"
      << "A .key is a secret: only its own machine should have it.\n";
  return kExitOk;
}

void add_keygen(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand("keygen", "Make the keys that protect a run's connections");
  const auto options = std::make_shared<KeygenOptions>();
  command->add_option("--out", options->out, "Folder to write to; made when missing")->required();
  constexpr std::uint32_t kNodesMax = 4096;  // as cluster.nodes
  command
      ->add_option("--nodes", options->nodes,
                   "A pair for each of so many nodes; without it one for all nodes")
      ->check(CLI::Range(std::uint32_t{1}, kNodesMax));
  command->callback([options, &exit_status] { exit_status = keygen(*options, std::cout, std::cerr); });
}

}  // namespace paceline
