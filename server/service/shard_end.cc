#include "server/service/shard_end.h"

#include <filesystem>
#include <utility>

#include "common/trace/trace_file.h"

namespace paceline::server {

void ShardEnd::run_over(const wire::RunOver& over) {
  if (!service_.applied()) return is_done(over);
  trace::Trace part;
  part.processes.push_back(trace::this_process(setup_.shard));
  part.shards.push_back({setup_.shard, service_.applied()->in_order(), service_.applied()->left_out()});
  background_.run([file = std::filesystem::path(setup_.config.run.out) / trace::part_name(setup_.shard),
                   part = std::move(part)] { return trace::write_trace(file, part); },
                  [this, over](const Status& written, Ticks) {
                    if (!written.is_ok()) setup_.log.warn("no trace of this shard: " + written.message());
                    is_done(over);
                  });
}

void ShardEnd::is_done(const wire::RunOver& over) {
  end_.reconfigures(over.reconfigures);
  report();
  if (authority_) return;
  end_.set_result(Status(over.code, over.message));
  link_.end_if_acked();
}

void ShardEnd::report() {
  const wire::TrafficCounters& counted = connections_.router().counters();
  wire::ShardReport report;
  report.shard = setup_.shard;
  report.bytes_pushed = counted.push_bytes;
  report.bytes_pulled = counted.parameter_bytes;
  report.bytes_shared = counted.shared_bytes;
  report.pulls = service_.pulls();
  report.malformed = counted.malformed + service_.refused() + connections_.refused();
  report.reconnects = connections_.reconnects();
  setup_.log.info("from and to nodes and shards " + std::to_string(counted.messages_received) +
                  " messages came and " + std::to_string(counted.messages_sent) + " left");
  if (connections_.reconnects() > 0) {
    setup_.log.info(
        "of nodes whose connections broke " + std::to_string(service_.repeated() + connections_.repeated()) +
        " messages came twice, and " + std::to_string(counted.too_late) + " were read too late, and dropped");
  }
  outbox_.send(Peer::of(kAuthority), {report, {}});
}

}  // namespace paceline::server
