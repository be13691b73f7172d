// Each part is taken from what is left, in the order of exchange.h.
#include "common/timing/exchange.h"

#include <algorithm>

namespace paceline {

ExchangeSplit split_exchange(std::chrono::nanoseconds total, const ExchangeTimes& exchange) {
  using std::chrono::nanoseconds;
  nanoseconds left = std::max(total, nanoseconds(0));
  const auto take = [&left](nanoseconds wanted) {
    const nanoseconds taken = std::clamp(wanted, nanoseconds(0), left);
    left -= taken;
    return taken;
  };
  ExchangeSplit split;
  split.barrier = take(exchange.held);
  split.ps_param = take(exchange.parameters.value_or(nanoseconds(0)));
  split.step = take(exchange.report);
  split.ps_apply_grads = left;
  return split;
}

}  // namespace paceline
