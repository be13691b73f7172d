// How far a sweep is: on a terminal a bar that is drawn over itself, elsewhere a line at its begin and one for each
// finished point.
#pragma once

#include <chrono>
#include <cstddef>
#include <iosfwd>
#include <string>

namespace paceline::sweep {

class Progress {
 public:
  enum class Style { kBar, kLines };

  // `all`: points; `done` of them were finished before.
  Progress(std::ostream& out, Style style, std::size_t all, std::size_t done);

  // The first points are about to run, `jobs` at a time. Nothing where there is a bar, or nothing left to run.
  void begin(std::size_t jobs);
  // A point is through: what became of it.
  void finished(const std::string& line);
  // The bar again, with the time now; nothing where there are lines.
  void draw(std::size_t running);
  // Wipes the bar, so that something else can be said.
  void clear();

  std::size_t done() const { return done_; }

 private:
  std::ostream& out_;
  Style style_;
  std::size_t all_, done_, before_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

// "[#####               ] 12/48, 2 running, 0:34 left": a quarter is done. `seconds`: what `done - before`
// took.
std::string progress_bar(std::size_t done, std::size_t all, std::size_t running, std::size_t before,
                         double seconds);

}  // namespace paceline::sweep
