// A plan (plan.h) as text.
#pragma once

#include <string>

#include "common/schedule/plan.h"

namespace paceline::schedule {

// "send 0..4096 to 1"
std::string to_string(const Transfer& row);

// One line each: the plan, each rank, each of its rows with its number and what it waits for.
std::string to_string(const Plan& plan);

}  // namespace paceline::schedule
