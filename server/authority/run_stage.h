// How far a run is (authority.h says what the first two stages do, run_end.h the others).
#pragma once

namespace paceline::server {

enum class RunStage { kGathering, kTraining, kEnding, kClosing, kFiling, kOver };

}  // namespace paceline::server
