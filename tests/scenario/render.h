// One action as one line of text, in the words of the scenario files (README.md beside this file).
#pragma once

#include <string>

#include "common/sync/actions.h"

namespace paceline::test {

std::string render(const sync::Action& action);

}  // namespace paceline::test
