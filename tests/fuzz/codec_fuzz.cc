// Throws bytes at the codec: whatever comes from the network, decode() returns a message or a refusal that
// says why, and a message it accepted survives another round trip. With a sanitizer build this also shows
// that nothing is read or written out of bounds.
//
// As a test: correct headers of every kind, mutated by a seeded generator; a failure prints the round, which
// reproduces it. With PACELINE_FUZZER (clang): the same property under libFuzzer.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/encode/encode.h"
#include "common/wire/codec.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/others.h"
#include "tests/unit/wire_fields.h"

namespace paceline::wire {
namespace {

[[noreturn]] void fail(const char* what, const std::string& detail) {
  std::fprintf(stderr, "codec fuzz: %s: %s\n", what, detail.c_str());
  std::abort();
}

std::vector<std::string> encoded(const std::vector<Header::Other>& others) {
  std::vector<std::string> headers;
  for (const Header::Other& other : others) headers.push_back(encode(other.message).value());
  return headers;
}

// What lies in an accepted header survives another round trip, too.
void check_others(const Header& header) {
  const Header::Other* const first = !header.before.empty()  ? &header.before.front()
                                     : !header.after.empty() ? &header.after.front()
                                                             : nullptr;
  if (first == nullptr) return;
  const std::string carrier = encode(Message{Pull{}, {}}).value();
  const Result<Header> back =
      decode_header(carrier + encode(Others{encoded(header.before), encoded(header.after)}));
  if (!back.is_ok()) fail("others accepted once, then refused", back.status().message());
  if (back->before.size() != header.before.size() || back->after.size() != header.after.size()) {
    fail("others lost on the way", name_of(first->message.body));
  }
  for (std::size_t i = 0; i < header.before.size(); ++i) {
    if (!same(header.before[i].message.body, back->before[i].message.body)) fail("changed ahead", "");
  }
  for (std::size_t i = 0; i < header.after.size(); ++i) {
    if (!same(header.after[i].message.body, back->after[i].message.body)) fail("changed after", "");
  }
}

// As a socket reads it.
Result<Message> read(std::string_view bytes, const Payload& payload) {
  PACELINE_ASSIGN_OR_RETURN(Header header, decode_header(bytes));
  if (!header.body) return invalid_argument("got no body");
  check_others(header);
  return with_payload(std::move(header), payload);
}

// True when the header was accepted.
bool check(std::string_view header, const Payload& payload) {
  const Result<Message> message = read(header, payload);
  if (!message.is_ok()) {
    if (message.status().code() != StatusCode::kInvalidArgument)
      fail("wrong code", message.status().message());
    if (message.status().message().find("got") == std::string::npos)
      fail("no reason", message.status().message());
    return false;
  }
  const bool has_floats = !std::holds_alternative<FilePiece>(message->body);  // that is bytes of a file
  std::vector<float> floats(has_floats ? static_cast<std::size_t>(message->payload.count()) : 0);
  const Status values = has_floats
                            ? paceline::decode(message->payload.encoding, message->payload.bytes(), floats)
                            : Status::ok();
  if (!values.is_ok() && values.message().find("expected") == std::string::npos) {
    fail("no reason", values.message());
  }
  const Result<std::string> again = encode(message.value());
  if (!again.is_ok()) fail("accepted, but cannot be sent", again.status().message());
  const Result<Message> back = decode(*again, message->payload);
  if (!back.is_ok()) fail("accepted once, then refused", back.status().message());
  const bool same_form = back->payload.encoding == message->payload.encoding &&
                         back->payload.count() == message->payload.count();
  if (!same_form || !same(message->body, back->body)) fail("changed on the way", name_of(message->body));
  return true;
}

#ifndef PACELINE_LIBFUZZER
int run(std::uint64_t rounds) {
  std::uint64_t accepted = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    Generator generate{CounterRandom(2, Stream::kTest, round)};
    Message message = generate.message(round % kBodies);
    std::string header = encode(message).value();
    if (round % 4 == 1) header += encode(random_others(generate));
    if (round % 8 == 7) message.payload.size = generate.random.next_below(message.payload.size + 1);
    testing::mutate(header, generate.random);
    if (check(header, message.payload)) ++accepted;
  }
  std::printf("codec fuzz: %llu headers, %llu still accepted\n", static_cast<unsigned long long>(rounds),
              static_cast<unsigned long long>(accepted));
  // Both outcomes must be common, or the mutations test nothing.
  return accepted > rounds / 50 && accepted < rounds ? 0 : 1;
}
#endif

}  // namespace
}  // namespace paceline::wire

#ifdef PACELINE_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view header(reinterpret_cast<const char*>(data), size);
  static const float kZeros[4] = {};
  const auto* bytes = reinterpret_cast<const std::byte*>(kZeros);
  paceline::wire::check(header, {});
  paceline::wire::check(header, {nullptr, bytes, sizeof(kZeros)});
  return 0;
}
#else
int main(int argc, char** argv) {
  return paceline::wire::run(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 200'000);
}
#endif
