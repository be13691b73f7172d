#include "tools/sweep.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>

#include "common/config/command_line.h"
#include "common/files/atomic_file.h"
#include "common/process/line_writer.h"
#include "common/process/machine.h"
#include "sweep/directory.h"
#include "sweep/processes.h"
#include "sweep/progress.h"
#include "sweep/table.h"
#include "tools/number_option.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kGridBytesMax = 4 << 20;
constexpr std::size_t kRowsAtOnce = 1000;          // up to so many the tables are written with every point
constexpr std::chrono::milliseconds kRedraw{500};  // of the progress bar

// One sweep, from its first point that is not finished to its end.
class Sweep {
 public:
  Sweep(const SweepOptions& options, const sweep::Points& points, sweep::Directory& directory,
        std::ostream& out, std::ostream& err)
      : options_(options), points_(points), directory_(directory), out_(out), err_(err) {}

  int run();

 private:
  Status check_points();                           // at what is finished
  Status start_more(sweep::Processes& processes);  // until all jobs are taken
  Status take(std::size_t point, const std::string& how, sweep::Progress& progress);
  Status keep_tables();  // in step with what is finished
  Status write_tables();
  std::string name(std::size_t point) const { return points_.grid().folder(point); }
  int end(bool stopped);

  const SweepOptions& options_;
  const sweep::Points& points_;
  sweep::Directory& directory_;
  std::ostream& out_;
  std::ostream& err_;
  const std::vector<std::string> keys_ = points_.grid().swept_keys();
  sweep::Rows rows_;
  std::chrono::steady_clock::time_point write_again_ = {};  // the tables, not earlier where they are large
  std::vector<std::size_t> waiting_;                        // the next last
  std::vector<std::string> failed_;  // what became of points without a run, in the order of their ends
};

Status Sweep::check_points() {
  for (std::size_t point = points_.size(); point-- > 0;) {
    if (!directory_.is_finished(points_, point)) {
      waiting_.push_back(point);
      continue;
    }
    Result<sweep::Row> row = sweep::read_row(directory_.run(points_, point), keys_, options_.target);
    if (row) {
      rows_.emplace(point, *row);
    } else {
      waiting_.push_back(point);  // its files are damaged
    }
  }
  return write_tables();
}

// Everything that is finished, as ever anew. Where that is much, at most a tenth of the time goes to it.
Status Sweep::keep_tables() {
  if (rows_.size() > kRowsAtOnce && std::chrono::steady_clock::now() < write_again_) return Status::ok();
  const auto began = std::chrono::steady_clock::now();
  const Status written = write_tables();
  const auto ended = std::chrono::steady_clock::now();
  write_again_ = ended + 10 * (ended - began);
  return written;
}

Status Sweep::write_tables() {
  PACELINE_RETURN_IF_ERROR(
      write_file_atomically(directory_.path() / "sweep.csv", sweep::table(points_, rows_)));
  return write_file_atomically(directory_.path() / "sweep.dat", sweep::plot_blocks(points_, rows_));
}

Status Sweep::start_more(sweep::Processes& processes) {
  while (!waiting_.empty() && processes.running() < options_.jobs) {
    const std::size_t point = waiting_.back();
    waiting_.pop_back();
    PACELINE_RETURN_IF_ERROR(directory_.begin(points_, point));
    const fs::path run = directory_.run(points_, point);
    std::vector<std::string> command{options_.program, "simulate",   (run / "config.yaml").string(),
                                     "--out",          run.string(), "--force"};
    if (points_.trace()) command.insert(command.end(), {"--trace", points_.trace()->string()});
    PACELINE_RETURN_IF_ERROR(processes.start(point, command, run / "simulate.log"));
  }
  return Status::ok();
}

Status Sweep::take(std::size_t point, const std::string& how, sweep::Progress& progress) {
  Result<sweep::Row> row = internal_error("its run directory is not that of this point");
  if (directory_.is_finished(points_, point)) {
    row = sweep::read_row(directory_.run(points_, point), keys_, options_.target);
  }
  if (!row) {
    const std::string why = how.empty() ? row.status().message() : how;
    failed_.push_back(name(point) + ": " + why + ", see " +
                      (directory_.run(points_, point) / "simulate.log").string());
    progress.finished(name(point) + ": failed (" + why + ")");
    return Status::ok();
  }
  rows_.emplace(point, *row);
  PACELINE_RETURN_IF_ERROR(keep_tables());  // before it is said to be finished
  char seconds[48];
  std::snprintf(seconds, sizeof seconds, ", %.3f s of virtual time", row->values[sweep::quantity("wall_s")]);
  progress.finished(name(point) + ": " + row->status + seconds);
  return Status::ok();
}

int Sweep::run() {
  if (const Status checked = check_points(); !checked.is_ok()) {
    err_ << options_.command << ": " << checked.message() << "\n";
    return kExitFailedRun;
  }
  using Kind = sweep::Processes::LocalEvent::Kind;
  sweep::Progress progress(err_,
                           options_.terminal ? sweep::Progress::Style::kBar : sweep::Progress::Style::kLines,
                           points_.size(), rows_.size());
  progress.begin(options_.jobs);
  Status status;
  bool stopped = false;
  {
    sweep::Processes processes;  // what still runs when this is left, is ended
    while (status.is_ok() && !stopped) {
      status = start_more(processes);
      if (!status.is_ok() || processes.running() == 0) break;
      progress.draw(processes.running());
      const sweep::Processes::LocalEvent event = processes.wait(kRedraw);
      stopped = event.kind == Kind::kStopped;
      if (event.kind == Kind::kEnded) status = take(event.task, event.how, progress);
    }
  }
  progress.clear();
  if (status.is_ok()) status = write_tables();
  if (!status.is_ok()) {
    err_ << options_.command << ": " << status.message() << "\n";
    return kExitFailedRun;
  }
  return end(stopped);
}

int Sweep::end(bool stopped) {
  for (const std::string& line : failed_) err_ << options_.command << ": " << line << "\n";
  std::size_t not_ok = 0;
  for (const auto& [point, row] : rows_) {
    if (row.status == "ok") continue;
    err_ << options_.command << ": " << name(point) << ": " << row.status << "\n";
    ++not_ok;
  }
  if (stopped) {
    err_ << "paceline sweep: stopped with " << rows_.size() << " of " << points_.size()
         << " points finished; the same command goes on\n";
    return kExitFailedRun;
  }
  out_ << options_.out << ": " << rows_.size() << " of " << points_.size() << " points in "
       << (directory_.path() / "sweep.csv").string() << "\n";
  return failed_.empty() && not_ok == 0 ? kExitOk : kExitFailedRun;
}

int refused_sweep(const SweepOptions& options, std::ostream& err, const Status& status) {
  err << options.command << ": " << status.message() << "\n";
  return kExitUsage;
}

}  // namespace

std::string own_program() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  return error ? "/proc/self/exe" : path.string();
}

int run_sweep(const SweepOptions& options, std::ostream& out, std::ostream& err) {
  std::string file;
  if (!options.grid.empty()) {
    Result<std::string> read = read_file(options.grid, kGridBytesMax);
    if (!read) return refused_sweep(options, err, read.status());
    if (read->empty()) return refused_sweep(options, err, invalid_argument(options.grid + ": an empty grid"));
    file = std::move(*read);
  }
  Result<sweep::Grid> grid = sweep::Grid::read(file, options.grid, options.axes);
  if (!grid) return refused_sweep(options, err, grid.status());
  const Result<sweep::Points> points =
      sweep::Points::read(options.config_path, std::move(*grid),
                          options.trace.empty() ? std::nullopt : std::optional<fs::path>(options.trace));
  if (!points) return refused_sweep(options, err, points.status());
  Result<sweep::Directory> directory = sweep::Directory::open(options.out, *points);
  if (!directory) return refused_sweep(options, err, directory.status());
  return Sweep(options, *points, *directory, out, err).run();
}

void add_sweep(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand("sweep", "Simulate a grid of configurations into one table");
  const auto options = std::make_shared<SweepOptions>();
  const auto target = std::make_shared<double>(0.0);
  options->jobs = usable_cores();
  command->add_option("CONFIG", options->config_path, "What all points share: a run's YAML file")->required();
  command->add_option("--out", options->out, "The sweep's directory; finished points in it are kept")
      ->required();
  command->add_option("--grid", options->grid, "A YAML file with `axes:`");
  command
      ->add_option("--jobs", options->jobs,
                   "Points at a time (default: one for each core this process may use)")
      ->check(CLI::Range(1u, 1024u));
  CLI::Option* given = command->add_option("--target", *target, "The accuracy of s_to_target, above 0, to 1")
                           ->check(accuracy_option());
  command->add_option("--trace", options->trace, "Take computations and costs from this real run");
  command->add_option("AXIS", options->axes,
                      "key.path=value,value,… or {key.path: value, …},{…}, as sweep/grid.h says");
  command->callback([options, target, given, &exit_status] {
    if (given->count() > 0) options->target = *target;
    options->program = own_program();
    options->terminal = ::isatty(STDERR_FILENO) == 1;
    StandardError errors("paceline sweep");
    exit_status = run_sweep(*options, std::cout, errors.stream());
  });
}

}  // namespace paceline
