#include "tests/scenario/render.h"

#include <sstream>

#include "common/config/names.h"

namespace paceline::test {
namespace {

using namespace paceline::sync;

std::string number(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

std::string ms(std::chrono::nanoseconds d) { return std::to_string(d.count() / 1'000'000) + "ms"; }

template <typename T>
std::string stamp(const T& x) {
  return to_string(x.worker) + "@" + to_string(x.clock);
}

std::string line(const Started&) { return "started"; }
std::string line(const Apply& a) {
  std::string text = "apply";
  for (const Contributor& c : a.contributors) text += " " + stamp(c) + "x" + std::to_string(c.weight);
  for (const SkippedIteration& s : a.skipped) text += " skipped " + stamp(s);
  text += a.combine == CombineMode::kMean ? " mean" : " each";
  return text + " version=" + to_string(a.version_after) + " revision=" + to_string(a.revision_after);
}
std::string line(const Grant& g) {
  return "grant " + to_string(g.worker) + " clock=" + to_string(g.clock) +
         " threshold=" + to_string(g.threshold) + " min_clock=" + to_string(g.min_clock) +
         " min_version=" + to_string(g.min_version) + " version=" + to_string(g.version) +
         " revision=" + to_string(g.revision) + " iteration=" + std::to_string(g.iteration) +
         " held=" + ms(g.held) + " position=" + std::to_string(g.position) +
         " samples=" + std::to_string(g.samples);
}
std::string line(const HeldNotice& h) {
  return "notice " + to_string(h.worker) + " clock=" + to_string(h.clock) + " lead=" + to_string(h.lead) +
         " waits_for=" + to_string(h.waits_for) + " threshold=" + to_string(h.threshold) +
         " held=" + ms(h.held);
}
std::string line(const VersionAdvanced& v) { return "version " + to_string(v.version); }
std::string line(const ThresholdChanged& t) {
  return "threshold " + to_string(t.from) + " -> " + to_string(t.to) + " lpr=" + number(t.lpr) +
         " version=" + to_string(t.version);
}
std::string line(const PolicySwitched& p) {
  return std::string("policy ") + name_of(p.from) + " -> " + name_of(p.to) + " threshold " +
         to_string(p.threshold_from) + " -> " + to_string(p.threshold_to) +
         " version=" + to_string(p.version);
}
std::string line(const WindowClosed& w) {
  return "window " + std::to_string(w.index) + " version=" + to_string(w.version) +
         " loss=" + number(w.loss_mean) + " accuracy=" + (w.accuracy ? number(*w.accuracy) : "-") +
         " samples=" + std::to_string(w.samples) + " lpr=" + (w.lpr ? number(*w.lpr) : "none") +
         " threshold=" + to_string(w.threshold);
}
std::string line(const Discard& d) { return "discard " + stamp(d); }
std::string line(const FinishWorker& f) { return "finish " + to_string(f.worker) + ": " + f.reason; }
std::string line(const RunFailed& f) { return "failed " + f.status.message(); }
std::string line(const AllFinished& a) {
  const char* names[] = {"complete", "stopped", "failed", "nobody_left"};
  return std::string("end ") + names[static_cast<int>(a.reason)] + " version=" + to_string(a.version) +
         " revision=" + to_string(a.revision);
}
std::string line(const Quiesced& q) {
  return "quiesced version=" + to_string(q.version) + " revision=" + to_string(q.revision);
}
std::string line(const Reject& r) {
  return std::string("reject ") + name_of(r.status.code()) + ": " + r.status.message();
}

}  // namespace

std::string render(const Action& action) {
  return std::visit([](const auto& a) { return line(a); }, action);
}

}  // namespace paceline::test
