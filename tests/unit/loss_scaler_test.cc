// Dynamic loss scaling (worker/model/loss_scaler.h).
#include "worker/model/loss_scaler.h"

#include <catch2/catch.hpp>

using paceline::LossScaler;

namespace {

LossScaler after(int overflows, int good_steps) {
  LossScaler scaler;
  for (int i = 0; i < overflows; ++i) scaler.step(true);
  for (int i = 0; i < good_steps; ++i) scaler.step(false);
  return scaler;
}

}  // namespace

TEST_CASE("a_loss_scale_halves_at_each_overflow_and_doubles_after_2000_steps_without_one") {
  CHECK(LossScaler().scale() == 65536.0F);
  CHECK(after(2, 0).scale() == 16384.0F);
  CHECK(after(2, 1999).scale() == 16384.0F);
  CHECK(after(2, 2000).scale() == 32768.0F);
  CHECK(after(2, 4000).scale() == 65536.0F);
  LossScaler scaler = after(0, 1999);
  scaler.step(true);  // it counts anew from here
  for (int i = 0; i < 1999; ++i) scaler.step(false);
  CHECK(scaler.scale() == 32768.0F);
  scaler.step(false);
  CHECK(scaler.scale() == 65536.0F);
}

TEST_CASE("a_loss_scale_is_a_guess_until_a_step_was_good_with_it_and_again_whenever_it_changes") {
  CHECK(LossScaler().is_guess());
  CHECK(after(3, 0).is_guess());
  CHECK_FALSE(after(3, 1).is_guess());
  CHECK_FALSE(after(3, 1999).is_guess());
  CHECK(after(3, 2000).is_guess());
  CHECK_FALSE(after(16, 0).is_guess());  // there is none below 1
}

TEST_CASE("a_loss_scale_stays_between_1_and_2_to_the_24") {
  CHECK(after(30, 0).scale() == 1.0F);
  CHECK(after(0, 20 * 2000).scale() == 16777216.0F);
}
