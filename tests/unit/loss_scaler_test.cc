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

TEST_CASE("a_loss_scale_is_a_guess_until_as_many_steps_were_good_as_a_gradient_has") {
  LossScaler scaler = after(3, 2);
  scaler.steps_of_a_gradient(3);
  CHECK(scaler.is_guess());
  scaler.step(false);
  CHECK_FALSE(scaler.is_guess());
}

TEST_CASE("a_loss_scale_stays_between_1_and_2_to_the_24") {
  CHECK(after(30, 0).scale() == 1.0F);
  CHECK(after(0, 20 * 2000).scale() == 16777216.0F);
}

TEST_CASE("what_goes_on_from_a_loss_scale_s_state_does_what_that_would_have_done") {
  LossScaler before = after(2, 1998);
  LossScaler goes_on;
  goes_on.go_on(before.state());
  CHECK_FALSE(goes_on.is_guess());
  goes_on.step(false);
  CHECK(goes_on.scale() == 16384.0F);
  goes_on.step(false);
  CHECK(goes_on.scale() == 32768.0F);
  CHECK(goes_on.is_guess());
}

TEST_CASE("a_loss_scale_that_cannot_be_is_known") {
  using paceline::LossScale;
  CHECK(LossScale{}.is_valid());
  CHECK(LossScale{1.0, 1999}.is_valid());
  CHECK(LossScale{16777216.0, 0}.is_valid());
  for (const LossScale& wrong : {LossScale{0.0, 1}, LossScale{3.0, 0}, LossScale{0.5, 0}, LossScale{-2.0, 0},
                                 LossScale{33554432.0, 0}, LossScale{2.0, -1}, LossScale{2.0, 2000}}) {
    CHECK_FALSE(wrong.is_valid());
  }
}
