// Which keys of a configuration say what a run was to do, and on what: only runs that agree in them can be
// compared.
#pragma once

#include <string>

namespace paceline {

// The work: model, data, mini-batch, iterations, workers.
bool is_of_the_work(const std::string& key);
// The cluster it is done on, what computing and sending cost: emulate.*, but for the cores of the machine,
// and of a simulated run simulate.*, too.
bool is_of_the_cluster(const std::string& key, bool simulated);

}  // namespace paceline
