#include "server/replicas/etcd_client.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <utility>

#include "common/assert.h"
#include "server/replicas/etcd_json.h"

namespace paceline::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using Error = boost::system::error_code;

constexpr std::size_t kAnswerBytesMax = 64 * 1024;  // two keys and what is around them
constexpr int kHttp11 = 11;

}  // namespace

// Each step keeps it alive; it ends with the first answer or fault, and then calls nobody any more.
class EtcdClient::Question : public std::enable_shared_from_this<Question> {
 private:
  std::string name() const { return "etcd at " + endpoint_.host + ":" + endpoint_.port; }

  // What follows a step that went well; after one that did not, or once this is over, nothing does.
  template <typename Then>
  auto step(Then then, const char* fault) {
    return
        [self = shared_from_this(), then = std::move(then), fault](const Error& error, const auto& result) {
          if (self->over_) return;
          if (error) return self->end(unavailable(self->name() + " " + fault + ": " + error.message()));
          then(result);
        };
  }

 public:
  Question(asio::io_context& io, Endpoint endpoint, EtcdRequest request,
           std::function<void(Result<EtcdAnswer>)> done)
      : endpoint_(std::move(endpoint)),
        asked_(std::move(request)),
        done_(std::move(done)),
        resolver_(io),
        stream_(io),
        deadline_(io) {
    parser_.body_limit(kAnswerBytesMax);
  }

  void begin(std::chrono::nanoseconds patience) {
    deadline_.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(patience));
    deadline_.async_wait([self = shared_from_this()](const Error& error) {
      if (!error) self->end(deadline_exceeded(self->name() + " has not answered in time"));
    });
    resolver_.async_resolve(
        endpoint_.host, endpoint_.port,
        step([this](const tcp::resolver::results_type& found) { connect(found); }, "has no address"));
  }

  // Nobody is told any more.
  void drop() {
    done_ = nullptr;
    end(aborted("dropped"));
  }

 private:
  void connect(const tcp::resolver::results_type& found) {
    stream_.async_connect(found, step([this](const tcp::endpoint&) { write(); }, "cannot be reached"));
  }

  void write() {
    EtcdPost post = post_of(asked_);
    request_ = {http::verb::post, post.target, kHttp11, std::move(post.body)};
    const bool colons = endpoint_.host.find(':') != std::string::npos;  // IPv6
    request_.set(http::field::host,
                 (colons ? "[" + endpoint_.host + "]" : endpoint_.host) + ":" + endpoint_.port);
    request_.set(http::field::content_type, "application/json");
    request_.keep_alive(false);
    request_.prepare_payload();
    http::async_write(stream_, request_, step([this](std::size_t) { read(); }, "ended the connection"));
  }

  void read() {
    http::async_read(stream_, buffer_, parser_,
                     step([this](std::size_t) { answer(); }, "ended the connection"));
  }

  void answer() {
    const auto& response = parser_.get();
    end(answer_of(asked_, static_cast<int>(response.result_int()), response.body()));
  }

  void end(Result<EtcdAnswer> result) {
    if (std::exchange(over_, true)) return;
    deadline_.cancel();
    resolver_.cancel();
    Error ignored;
    stream_.socket().close(ignored);
    if (const auto done = std::exchange(done_, nullptr)) done(std::move(result));
  }

  const Endpoint endpoint_;
  const EtcdRequest asked_;
  Done done_;
  tcp::resolver resolver_;
  beast::tcp_stream stream_;
  asio::steady_timer deadline_;
  http::request<http::string_body> request_;
  http::response_parser<http::string_body> parser_;
  beast::flat_buffer buffer_{kAnswerBytesMax};
  bool over_ = false;
};

EtcdClient::EtcdClient(asio::io_context& io, std::vector<Endpoint> endpoints)
    : io_(io), endpoints_(std::move(endpoints)) {}

EtcdClient::~EtcdClient() {
  if (question_) question_->drop();
}

Result<EtcdClient::Endpoint> EtcdClient::endpoint_of(const std::string& text) {
  constexpr std::string_view kScheme = "http://";
  const std::size_t colon = text.rfind(':');
  const bool has_both = text.starts_with(kScheme) && colon > kScheme.size() && colon + 1 < text.size() &&
                        text.find_first_not_of("0123456789", colon + 1) == std::string::npos;
  std::string host = has_both ? text.substr(kScheme.size(), colon - kScheme.size()) : "";
  const bool brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const bool is_sound =
      has_both && host.find('/') == std::string::npos && (brackets || host.find(':') == std::string::npos);
  if (!is_sound) return invalid_argument("etcd's endpoint: got \"" + text + "\", expected http://HOST:PORT");
  if (brackets) host = host.substr(1, host.size() - 2);
  return Endpoint{std::move(host), text.substr(colon + 1)};
}

Result<std::unique_ptr<EtcdClient>> EtcdClient::make(asio::io_context& io,
                                                     const std::vector<std::string>& endpoints) {
  if (endpoints.empty()) return invalid_argument("etcd's endpoints: got none, expected one at least");
  std::vector<Endpoint> parsed;
  for (const std::string& text : endpoints) {
    PACELINE_ASSIGN_OR_RETURN(Endpoint endpoint, endpoint_of(text));
    parsed.push_back(std::move(endpoint));
  }
  return std::unique_ptr<EtcdClient>(new EtcdClient(io, std::move(parsed)));
}

void EtcdClient::ask(const EtcdRequest& request, std::chrono::nanoseconds patience, Done done) {
  PACELINE_ASSERT(!question_, "a question while another one is not answered");
  question_ = std::make_shared<Question>(io_, endpoints_[asks_], request,
                                         [this, done = std::move(done)](Result<EtcdAnswer> answer) {
                                           question_.reset();
                                           if (!answer.is_ok()) asks_ = (asks_ + 1) % endpoints_.size();
                                           done(std::move(answer));
                                         });
  question_->begin(patience);
}

}  // namespace paceline::server
