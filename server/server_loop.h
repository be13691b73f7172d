// ServerLoop: the only I/O of a server. Sockets and timers in, decoded messages to the shard's service and to
// the authority, and what they send out again.
//
//   RouterSocket (nodes; at the authority the other shards too) ─┐
//   DealerSocket (other shards: the authority) ──────────────────┼─> ShardService, Authority ─> Outbox ─> out
//   timer: leases, held grants, heartbeats, progress ────────────┘
//
// At the authority its own shard is spoken to through a queue in memory instead of a socket; both speak the
// very messages that travel between processes, so there is one path of the data, not two.
//
// Thread: the one that runs `io`.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/config/run_config.h"
#include "common/incarnation.h"
#include "common/instant.h"
#include "common/log/log.h"
#include "common/log/stall_log.h"
#include "common/ticks.h"
#include "common/traffic.h"
#include "common/wire/transport.h"
#include "server/authority/authority.h"
#include "server/authority/hand_over.h"
#include "server/background_thread.h"
#include "server/http/http_server.h"
#include "server/last_seen.h"
#include "server/membership.h"
#include "server/replicas/replica.h"
#include "server/replicas/replica_role.h"
#include "server/resume.h"
#include "server/server.h"
#include "server/server_channels.h"
#include "server/shard_checkpoints.h"
#include "server/shard_service.h"
#include "server/status_display.h"
#include "server/unreachable.h"
#include "server/wake.h"

namespace paceline::server {

class ServerLoop {
 public:
  ServerLoop(boost::asio::io_context& io, const RunConfig& config, ShardId shard, const Log& log,
             ServerOptions options);
  ~ServerLoop();
  ServerLoop(const ServerLoop&) = delete;

  [[nodiscard]] Status open(wire::Context& context);
  std::string endpoint() const { return router_->endpoint(); }
  std::string http_address() const { return http_ ? http_->address() : ""; }
  void stop(const std::string& reason);
  // Another shard than the authority: goes at once.
  void leave(const std::string& reason);
  // Writes into the log what is waited for now, and why.
  void explain();
  void save_checkpoint();
  // How the run went, once the loop has ended.
  const Status& result() const { return result_; }
  std::optional<RestartRequest> restart_request() const { return restart_request_; }
  const ShardService& service() const { return service_; }

 private:
  // The two speakers of this process send through one of these.
  class Port final : public Outbox {
   public:
    enum class Speaker { kShard, kAuthority };
    Port(ServerLoop& loop, Speaker speaker) : loop_(loop), speaker_(speaker) {}
    void send(Peer to, wire::Message message) override { loop_.send(speaker_, to, std::move(message)); }
    void disconnect(NodeId node) override { loop_.disconnect(node); }

   private:
    ServerLoop& loop_;
    Speaker speaker_;
  };
  using Speaker = Port::Speaker;

  Result<wire::TransportOptions> listening();
  // wire::Pin, by the device; that it cannot be is logged once.
  std::shared_ptr<void> pin(std::span<const std::byte> pages);

  // What came in (server_loop.cc).
  void on_router(const wire::PeerId& from, Result<wire::Message> message);
  [[nodiscard]] Status check_key(bool may, const std::string& who) const;
  void refuse_stranger(const wire::PeerId& from, const wire::Body& body);
  void refuse_gone(const wire::PeerId& from, Peer peer);
  void on_join(const wire::PeerId& from, const wire::Join& join, Ticks now);
  [[nodiscard]] bool count_rejected_join(const wire::PeerId& from, const wire::Join& join, Ticks now);
  void refuse_join(const wire::PeerId& from, const Status& why);
  [[nodiscard]] Status check_generation(const wire::Join& join) const;
  void welcome(const wire::Join& join, const Layout& layout, Ticks now);

  // Nodes that go on over another connection (server_loop_rejoin.cc).
  static constexpr std::chrono::milliseconds kComesBackWithin{1500};
  static constexpr int kBeatsToComeBack = 2;             // and as many heartbeats, over a network
  static constexpr std::int64_t kReconnectsLogged = 20;  // of a node
  bool goes_on(const wire::PeerId& from, const wire::Join& join) const;
  void on_rejoin(const wire::PeerId& from, const wire::Join& join, Ticks now);
  void welcome_again(const wire::Join& join);
  std::chrono::nanoseconds given_to_come_back(ShardId server) const;
  std::chrono::nanoseconds given_to_return() const;

  // The authority and the other shards (server_loop_shards.cc).
  [[nodiscard]] bool count_rejected_join(const wire::PeerId& from, const wire::ShardJoin& join);
  void on_shard_join(const wire::PeerId& from, const wire::ShardJoin& join, Ticks now);
  void on_shard_rejoin(const wire::PeerId& from, const wire::ShardJoin& join, Ticks now);
  void on_shard(Peer from, const wire::Message& message, Ticks now);
  void tell_heard(Peer shard);
  [[nodiscard]] Status connect_to_authority(wire::Context& context);
  std::string authority_endpoint() const;
  void on_authority_broken(std::int64_t connection);
  void look_for_authority(Ticks now);
  void connect_again();
  void connect_in(std::chrono::milliseconds pause);
  static std::string said_again(const ReliableChannel& talk, std::int64_t times);
  void on_denied(const Status& why);
  void on_dealer(Result<wire::Message> message);
  void on_shard_welcome(const wire::ShardWelcome& welcome);
  void on_authority_error(const wire::Error& error);
  void to_authority(wire::Message message);
  void leave_with(const Status& why);
  void end_if_heard();

  // Nodes that come while training goes on (server_loop_return.cc).
  [[nodiscard]] Status check_admission(const wire::PeerId& from, const wire::Join& join, Ticks now);
  [[nodiscard]] Status may_follow(const wire::Join& join, Ticks now);
  void drop_stale_join(NodeId node);
  void retry_later(const wire::PeerId& from, NodeId node, const Status& why);
  void on_admitted(const wire::NodeAdmitted& admitted);
  bool is_of_a_former_process(const wire::NodeLost& lost) const;

  // A replica that serves (server_loop_replicas.cc).
  [[nodiscard]] Status open_replica();
  std::string own_endpoint() const;
  std::string other_endpoint() const;
  Background& authority_background();
  void on_election();
  bool acts() const;
  bool follows() const { return role_.follows(); }
  bool awaits_return() const;
  std::string why_it_waits() const;
  void note(wire::LogEntry::As as, Peer who, const wire::Body& body, const wire::Payload& payload, Ticks now);
  void note(Peer who, wire::LocalEvent happened, Ticks now);
  void end_turn();
  void tell_follower(wire::Message event);
  [[nodiscard]] Status say(const wire::PeerId& to, wire::Message message);
  void release();
  bool on_replica(const wire::PeerId& from, const Result<wire::Message>& message);
  void on_replica_join(const wire::PeerId& from, const wire::ReplicaJoin& join);
  void on_follower(const Result<wire::Message>& message);
  void lose_follower(const std::string& why);
  void look_at_etcd();
  void look_after_follower(Ticks now);
  void replica_waits(Ticks now, std::vector<Wait>& waits) const;
  void end_replica();

  // A replica that follows (server_loop_follows.cc).
  [[nodiscard]] Status follow(wire::Context& context);
  [[nodiscard]] Status ask_to_follow();
  void on_serving_broken();
  void come_back(const std::string& why);
  void end_unheard();
  void on_serving(Result<wire::Message> message);
  [[nodiscard]] Status begin_following(const wire::ReplicaWelcome& welcome);
  void on_event(wire::Message event);
  Status in_another_state(Status why) const;
  void tell_held();
  void apply(wire::Message event, Ticks at);
  void apply(Peer who, const wire::LocalEvent& happened, Ticks at);
  [[nodiscard]] Status apply_join(Peer who, const wire::Body& body, bool goes_on, Ticks at);
  void compare(const std::optional<UncommittedOutputs::BothSaved>& saved);
  void answer_for_files();
  void tick_following();
  void take_over();

  // A replica that comes back (server_loop_hand_over.cc).
  void look_for_follower();
  void ask_hand_over(const wire::PeerId& from);
  void give_checkpoint(const wire::PeerId& to);
  void on_pull(const wire::FilePull& pull);
  void on_resumes(const wire::ReplicaResumes& resumes);
  void pull_more();
  void read_given();
  [[nodiscard]] Status apply_resumed(std::uint64_t generation, Ticks at);

  void remove(Peer peer);
  [[nodiscard]] Status share_memory(const wire::PeerId& with, NodeId node);
  [[nodiscard]] Status settle_sharing(const wire::PeerId& from, Peer peer, const wire::Body& body);
  [[nodiscard]] Status judge_sharing(NodeId node, const Status& shared);
  // By all shards, as far as this one has heard.
  Traffic moved() const;
  void on_heartbeat(Peer from, const wire::Heartbeat& beat);
  void on_node(Peer from, wire::Message message, Ticks now);
  bool takes_long(const wire::Body& body) const;
  void to_service(Peer from, wire::Message message);
  void on_replies_left();
  void on_shard_status(const Status& shard_state);
  void run_over(const wire::RunOver& over);
  void drain();
  void work_ahead();
  void ask_to_stop(const std::string& reason);
  void leave_authority(const std::string& reason);

  // The way of a resumed run to where it goes on (server_loop_resume.cc).
  [[nodiscard]] Status look_for_checkpoints();
  bool waits_for_resume() const { return resumes_ && !resumed_; }
  void on_resuming_shard(const wire::PeerId& from, const wire::ShardJoin& join, Ticks now);
  void on_waiting_node(Peer from, const wire::Body& body);
  void evict_previous(const wire::PeerId& from, const wire::Join& join);
  bool forget_waiting(Peer peer);
  void choose_checkpoint(Ticks now);
  [[nodiscard]] Status begin_resumed(ResumePoint point, Ticks now);
  [[nodiscard]] Status resume_authority(ResumePoint point, Ticks now);
  void go_on_from(CheckpointId id, std::uint64_t generation);
  void on_file_read(Status read, std::shared_ptr<std::optional<ShardFile>> file, Ticks now);
  void check_resume(Ticks now);
  void cannot_resume(const Status& why);

  // What goes out, and time (server_loop_out.cc).
  void send(Speaker speaker, Peer to, wire::Message message);
  void send_to(const wire::PeerId& connection, wire::Body body);
  std::int64_t waiting(const wire::PeerId& connection) const;
  [[nodiscard]] Status check_room(const wire::PeerId& connection) const;
  void disconnect(NodeId node);
  void refuse(const wire::PeerId& to, const Status& why, bool fatal);
  void lose(Peer peer, const std::string& why, Ticks now);
  void not_sent(const wire::PeerId& connection, const Status& why);
  void cannot_send(Peer to, const Status& why);
  void check_unreachable(Ticks now);
  void schedule_tick();
  void on_tick();
  void keep_out(Ticks now);
  void heartbeat(Ticks now);
  void say_heartbeat(Peer peer, wire::Heartbeat beat);  // to one that is here
  void check_authority(Ticks now);
  void check_leases(Ticks now);
  void report_shard();
  void shard_is_done(const wire::RunOver& over);
  void end(Status result);

  // What does not come, and why (server_loop_waits.cc).
  LastSeen last_seen(Ticks now) const;
  std::vector<Wait> waits(Ticks now) const;
  void look_for_stalls(Ticks now);

  // How the run goes, for whoever looks (server_loop_status.cc).
  RunStatus status(Ticks now) const;
  [[nodiscard]] Status open_http(Ticks now);
  bool is_shown() const { return is_authority() && (http_ || options_.progress != nullptr); }
  void show_status(Ticks now);

  bool is_authority() const { return shard_ == kAuthority; }
  // Now; of a replica that follows or has, by the clock of the one that began.
  Ticks ticks() const { return steady_now() + shift_; }

  boost::asio::io_context& io_;
  const RunConfig config_;
  const ShardId shard_;
  const Log& log_;
  const ServerOptions options_;
  const std::uint64_t fingerprint_;      // of the session
  const std::uint64_t run_fingerprint_;  // of the run: what its checkpoints have
  Port shard_port_;
  Port authority_port_;
  ReplicaRole role_;
  ServerChannels channels_;
  Membership membership_;
  std::vector<bool>
      reads_ours_is_open_;  // by node: we read its memory, and it has not said yet if it reads ours
  const std::shared_ptr<Wake> replies_left_;  // by ZeroMQ's thread
  ShardCheckpoints shard_checkpoints_;
  ShardService service_;
  BackgroundThread background_;
  std::unique_ptr<Replica> replica_;    // cluster.replicas: 2
  std::chrono::nanoseconds shift_{0};   // of ticks()
  std::optional<Authority> authority_;  // shard 0 only

  std::unique_ptr<wire::RouterSocket> router_;
  std::unique_ptr<wire::DealerSocket> dealer_;           // other shards: to the authority
  wire::Context* context_ = nullptr;                     // what it connects in
  bool welcomed_ = false;                                // other shards: the authority has answered
  std::uint64_t incarnation_ = new_incarnation();        // of the shard, whichever of its replicas serves
  std::shared_ptr<const wire::ClientKeys> client_keys_;  // other shards, where the run has keys
  std::int64_t connection_ = 0;  // other shards: how many to the authority there have been
  // The one to the authority broke, and it has not welcomed this shard over another one.
  struct Broken {
    int attempts = 0;        // connections that were tried
    Ticks asked;             // when the last of them was made
    bool connected = false;  // with the last of them; else what still comes counts for nothing
  };
  std::optional<Broken> broken_;
  std::int64_t authority_breaks_ = 0;
  std::uint32_t authority_at_ = 0;  // other shards: at which of its endpoints it is looked for
  std::optional<Status>
      over_;  // other shards: how the run went, once there is nothing left to do but to be heard
  std::uint64_t generation_ = 1;  // of the run; of one that is resumed, once resumed_
  // A run that is resumed.
  bool resumes_;  // it is one; of a replica that follows, once it knows
  OwnFiles own_files_;
  std::optional<ResumeChoice> choice_;  // the authority's, until it is made
  bool resumed_ = false;                // this shard has what it goes on from
  std::optional<CheckpointId> resume_point_;
  struct Waiting {
    wire::PeerId connection;
    wire::Join join;
    Layout layout;
  };
  std::vector<Waiting> waiting_;  // nodes that are in, and are answered when it has
  // Of each node: another process that has asked to be let in while one is here, when that one was asked last
  // whether it is alive, and whether it has said so; and the process that the authority has let in last. 0:
  // none.
  struct LateJoin {
    std::uint64_t asks = 0;
    Ticks asked;
    bool is_answered = false;
    std::uint64_t admitted = 0;
  };
  std::vector<LateJoin> comers_;
  Ticks authority_seen_;

  boost::asio::steady_timer timer_;
  boost::asio::steady_timer rejoin_timer_;  // other shards: to the authority, over another connection
  Ticks started_at_;
  Ticks last_tick_;
  Ticks next_heartbeat_;
  Ticks next_status_;
  bool training_shown_ = false;
  Ticks next_look_;  // for stalls
  StallLog stalls_;
  StatusDisplay display_;
  std::map<ShardId, Traffic> moved_elsewhere_;  // the authority's: by the other shards
  std::unique_ptr<HttpServer> http_;            // the authority's, with run.http

  std::deque<std::pair<Speaker, wire::Message>> local_;  // from that speaker to the other one
  Unreachable unreachable_;                              // found while sending
  std::vector<std::pair<Peer, std::string>> expelled_;   // refused for good in this handler, and why
  std::int64_t refused_ = 0;
  std::int64_t repeated_ = 0;      // messages to the authority, of nodes that say them again
  std::int64_t reconnects_ = 0;    // of nodes, and at the authority of the other shards
  bool works_ahead_ = false;       // work_ahead() is to be called
  bool device_is_judged_ = false;  // what has failed on it
  bool pin_failure_is_said_ = false;
  bool ended_ = false;
  bool hands_over_ = false;                        // it ends for all servers to go on
  std::optional<RestartRequest> restart_request_;  // once it has, and how this one does
  bool returns_ = false;                           // it ends to come back as a follower
  std::string is_to_stop_;                         // why, told to one that goes on before it could see to it
  Status result_ = internal_error("the server's loop ended before the run");
};

}  // namespace paceline::server
