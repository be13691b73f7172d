#include "tools/schedule_sums.h"

#include <algorithm>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <utility>

#include "common/config/names.h"
#include "common/config/reducing.h"
#include "common/schedule/buckets.h"
#include "common/schedule/check.h"
#include "common/schedule/halves.h"
#include "common/schedule/print.h"
#include "common/schedule/run_links.h"
#include "common/schedule/run_plan.h"
#include "tools/schedule_table.h"

namespace paceline {
namespace {

double longest(const std::vector<schedule::Program>& programs, const schedule::Links& links) {
  const std::vector<double> ends = schedule::reduction_times(programs, links);
  return *std::max_element(ends.begin(), ends.end());
}

// What a bucket takes of the nodes that sum it.
struct BucketCost {
  schedule::Plan plan;
  std::int64_t bytes = 0;  // that a node sends at most
  double sums = 0.0;       // s
  double copies = 0.0;     // s, after the sums of all buckets, with exchange.shard_optimizer
};

// Buckets of one size, whose parts may end at the same places, have one plan.
using Alike = std::pair<std::int64_t, Borders>;

// Of each bucket.
std::vector<Alike> alike_of(const RunConfig& config, const Layout& layout, const std::vector<Range>& cut) {
  std::vector<Alike> alike;
  for (const Range& bucket : cut) {
    alike.emplace_back(bucket.size(), schedule::borders_of_bucket(config, layout, bucket, std::ssize(alike),
                                                                  reducing_ranks(config)));
  }
  return alike;
}

Result<schedule::Plan> plan_of(const RunConfig& config, const Alike& alike) {
  return schedule::plan_of_run(config, alike.first, {}, {}, {}, alike.second);
}

// By rank, as long as none is lost.
Result<std::vector<std::uint32_t>> keepers_in(const RunConfig& config, const std::vector<Alike>& buckets) {
  const bool keeps = config.exchange.shard_optimizer && config.exchange.on_loss == OnLoss::kGoOn;
  std::vector<bool> owns(reducing_ranks(config));
  if (!keeps) return schedule::keepers_of(owns, keeps);
  for (const Alike& alike : std::set<Alike>(buckets.begin(), buckets.end())) {
    PACELINE_ASSIGN_OR_RETURN(const schedule::Plan plan, plan_of(config, alike));
    PACELINE_ASSIGN_OR_RETURN(const schedule::Halves halves, schedule::halves_of(plan));
    for (std::size_t rank = 0; rank < owns.size(); ++rank)
      owns[rank] = owns[rank] || !halves.owned[rank].empty();
  }
  return schedule::keepers_of(owns, keeps);
}

Result<BucketCost> cost_of_bucket(const RunConfig& config, const Alike& alike,
                                  const std::vector<std::uint32_t>& keepers, const schedule::Links& links) {
  PACELINE_ASSIGN_OR_RETURN(schedule::Plan plan, plan_of(config, alike));
  std::vector<std::int64_t> sent(plan.ranks.size(), 0);
  const auto seconds_of = [&](const schedule::Plan& part, Encoding encoding) {
    const std::vector<schedule::Program> programs = schedule::programs_of(part, encoding);
    for (std::size_t rank = 0; rank < sent.size(); ++rank) sent[rank] += schedule::bytes_sent(programs[rank]);
    return longest(programs, links);
  };
  BucketCost cost;
  if (config.exchange.shard_optimizer) {
    PACELINE_ASSIGN_OR_RETURN(schedule::Halves halves, schedule::halves_of(plan));
    halves.keep(keepers);
    plan = halves.whole();
    cost.sums = seconds_of(halves.sums, config.cluster.gradient_encoding);
    cost.copies = seconds_of(halves.copies, Encoding::kFp32);
  } else {
    cost.sums = seconds_of(plan, config.cluster.gradient_encoding);
  }
  PACELINE_RETURN_IF_ERROR(schedule::check(plan));
  cost.bytes = *std::max_element(sent.begin(), sent.end());
  cost.plan = std::move(plan);
  return cost;
}

// "nodes 1, 3", or "nodes 1, 3 .. 31 (16)"
std::string nodes_of(const RunConfig& config, std::uint32_t stage) {
  constexpr std::uint32_t kNamed = 8;
  const std::uint32_t ranks = reducing_ranks(config);
  const auto node = [&](std::uint32_t rank) { return std::to_string(rank * config.pipeline.stages + stage); };
  if (ranks > kNamed)
    return "nodes " + node(0) + ", " + node(1) + " .. " + node(ranks - 1) + " (" + std::to_string(ranks) +
           ")";
  std::string text = "nodes ";
  for (std::uint32_t rank = 0; rank < ranks; ++rank) text += (rank == 0 ? "" : ", ") + node(rank);
  return text;
}

std::string text_of(const Range& range) {
  return std::to_string(range.begin) + ".." + std::to_string(range.end);
}

}  // namespace

Status print_sums(const RunConfig& config, const Layout& layout, std::ostream& out) {
  const std::vector<Range> cut = schedule::buckets(layout, config.exchange.bucket_bytes);
  const schedule::Links links = schedule::links_of_run(config.simulate);
  double sums = 0.0, copies = 0.0;
  // "2 ms", "4 ms, of it the copies at the end 2 ms"
  const auto words_of = [&config](double of_sums, double of_copies) {
    const std::string all = milliseconds_text(of_sums + of_copies);
    return config.exchange.shard_optimizer
               ? all + ", of it the copies at the end " + milliseconds_text(of_copies)
               : all;
  };
  out << layout.size() << " floats in " << cut.size() << " bucket(s), " << config.cluster.nodes
      << " node(s), algorithm " << name_of(config.exchange.algorithm) << "\n";
  struct Printed {
    std::size_t bucket = 0;
    BucketCost cost = {};
  };
  std::map<Alike, Printed> printed;
  const std::vector<Alike> alike = alike_of(config, layout, cut);
  PACELINE_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> keepers, keepers_in(config, alike));
  for (std::size_t b = 0; b < cut.size(); ++b) {
    out << "\nbucket " << b << ": floats " << text_of(cut[b]) << ", ";
    const auto [same, is_new] = printed.emplace(alike[b], Printed{b});
    BucketCost& cost = same->second.cost;
    if (is_new) {
      PACELINE_ASSIGN_OR_RETURN(cost, cost_of_bucket(config, alike[b], keepers, links));
      out << "checked, takes " << words_of(cost.sums, cost.copies) << "\n" << to_string(cost.plan);
    } else {
      out << "as bucket " << same->second.bucket << "\n";
    }
    sums += cost.sums;
    copies += cost.copies;
  }
  out << "\none after another " << words_of(sums, copies) << ", with " << words_of_links(config) << "\n";
  return Status::ok();
}

Result<std::vector<double>> print_sums_of_stages(const RunConfig& config, const Layout& layout,
                                                 const std::vector<Range>& held, std::ostream& out) {
  std::vector<double> seconds(held.size(), 0.0);
  if (reducing_ranks(config) == 1) {
    out << "\none group: no stage has another node to sum with\n";
    return seconds;
  }
  out << "\nsums of each stage, once its last backward pass has ended: algorithm "
      << name_of(config.exchange.algorithm) << ", with " << words_of_links(config) << "\n";
  for (std::uint32_t s = 0; s < held.size(); ++s) {
    const Range& own = held[s];
    const Layout of_stage = part_of(layout, own);
    const std::vector<Range> cut = schedule::buckets(of_stage, config.exchange.bucket_bytes);
    const schedule::Links links = schedule::links_of_stage(config, s);
    std::map<Alike, BucketCost> costs;
    const std::vector<Alike> alike = alike_of(config, of_stage, cut);
    PACELINE_ASSIGN_OR_RETURN(const std::vector<std::uint32_t> keepers, keepers_in(config, alike));
    double copies = 0.0;
    std::string lines;
    for (std::size_t b = 0; b < cut.size(); ++b) {
      if (!costs.contains(alike[b])) {
        PACELINE_ASSIGN_OR_RETURN(costs[alike[b]], cost_of_bucket(config, alike[b], keepers, links));
      }
      const BucketCost& cost = costs.at(alike[b]);
      seconds[s] += cost.sums;
      copies += cost.copies;
      lines += "  bucket " + std::to_string(b) + ": floats " +
               text_of({own.begin + cut[b].begin, own.begin + cut[b].end}) + ", " + cost.plan.name +
               ", up to " + std::to_string(cost.bytes) + " bytes from a node, " +
               milliseconds_text(cost.sums) + "\n";
    }
    seconds[s] += copies;
    out << "stage " << s << ": " << nodes_of(config, s) << " sum " << own.size()
        << " floats, checked, one bucket after another " << milliseconds_text(seconds[s]);
    if (config.exchange.shard_optimizer) out << ", of it the copies at the end " << milliseconds_text(copies);
    out << "\n" << lines;
  }
  return seconds;
}

}  // namespace paceline
