#include "sweep/progress.h"

#include <cmath>
#include <cstdio>
#include <ostream>

namespace paceline::sweep {

Progress::Progress(std::ostream& out, Style style, std::size_t all, std::size_t done)
    : out_(out), style_(style), all_(all), done_(done), before_(done) {}

void Progress::begin(std::size_t jobs) {
  if (style_ == Style::kBar || done_ == all_) return;
  out_ << "[" << done_ << "/" << all_ << "] " << all_ - done_ << " to run, " << jobs
       << " at a time: a line for each that ends\n"
       << std::flush;
}

void Progress::finished(const std::string& line) {
  ++done_;
  if (style_ == Style::kLines) {
    out_ << "[" << done_ << "/" << all_ << "] " << line << "\n" << std::flush;
  }
}

void Progress::draw(std::size_t running) {
  if (style_ == Style::kLines) return;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began_;
  out_ << "\r\x1b[K" << progress_bar(done_, all_, running, before_, seconds.count()) << std::flush;
}

void Progress::clear() {
  if (style_ == Style::kBar) out_ << "\r\x1b[K" << std::flush;
}

std::string progress_bar(std::size_t done, std::size_t all, std::size_t running, std::size_t before,
                         double seconds) {
  constexpr std::size_t kWidth = 20;
  const std::size_t filled = all == 0 ? kWidth : done * kWidth / all;
  std::string bar = "[" + std::string(filled, '#') + std::string(kWidth - filled, ' ') + "] " +
                    std::to_string(done) + "/" + std::to_string(all) + ", " + std::to_string(running) +
                    " running";
  if (done > before && done < all) {
    const double left = seconds / static_cast<double>(done - before) * static_cast<double>(all - done);
    const auto whole = static_cast<long long>(std::lround(left));
    char text[48];
    std::snprintf(text, sizeof text, ", %lld:%02lld left", whole / 60, whole % 60);
    bar += text;
  }
  return bar;
}

}  // namespace paceline::sweep
