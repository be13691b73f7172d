// The codec gives back what it was given: every message, every field, and the bytes that docs/PROTOCOL.md
// shows.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>

#include "common/wire/codec.h"
#include "common/wire/text.h"
#include "tests/unit/wire_fields.h"

namespace paceline::wire {
namespace {

std::string hex(const std::string& bytes) {
  std::string out;
  for (unsigned char byte : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    if (!out.empty()) out += ' ';
    out += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return out;
}

Message there_and_back(const Message& message) {
  const auto header = encode(message);
  INFO(header.status().message());
  REQUIRE(header.is_ok());
  auto decoded = decode(*header, message.payload);
  INFO(decoded.status().message());
  REQUIRE(decoded.is_ok());
  return std::move(decoded).value();
}

TEST_CASE("every message comes back as it was, field by field") {
  for (std::size_t kind = 0; kind < kBodies; ++kind) {
    for (std::uint64_t sample = 0; sample < 300; ++sample) {
      Generator generate{CounterRandom(1, Stream::kTest, kind, sample)};
      Message message = generate.message(kind);
      if (sample % 2 == 1) message.logged = generate.logged();
      INFO(name_of(message.body) << " sample " << sample);
      const Message back = there_and_back(message);
      REQUIRE(same(message.body, back.body));
      REQUIRE(message.logged == back.logged);
      REQUIRE(back.payload.data == message.payload.data);  // handed through, not copied
      REQUIRE(back.payload.size == message.payload.size);
      REQUIRE(back.payload.encoding == message.payload.encoding);
      REQUIRE(back.payload.count() == message.payload.count());
    }
  }
}

TEST_CASE("messages that travel with another come back as they were, each on its side of it") {
  for (std::uint64_t sample = 0; sample < 300; ++sample) {
    Generator generate{CounterRandom(3, Stream::kTest, sample)};
    std::vector<Message> messages;
    while (messages.size() < 7) {
      Message message = generate.message(generate.random.next_below(kBodies));
      message.logged.reset();
      if (travels_with_others(message.body) && message.payload.empty())
        messages.push_back(std::move(message));
    }
    Others others;
    for (std::size_t i = 1; i < messages.size(); ++i) {
      (i < 4 ? others.before : others.after).push_back(encode(messages[i]).value());
    }
    const auto header = decode_header(encode(messages[0]).value() + encode(others));
    INFO(header.status().message());
    REQUIRE(header.is_ok());
    CHECK(same(*header->body, messages[0].body));
    REQUIRE((header->before.size() == 3 && header->after.size() == 3));
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(same(header->before[i].message.body, messages[1 + i].body));
      CHECK(header->before[i].bytes == others.before[i].size());
      CHECK(same(header->after[i].message.body, messages[4 + i].body));
    }
  }
}

// docs/PROTOCOL.md with every run of spaces and newlines as one space.
std::string protocol_page() {
  std::ifstream file(std::string(PACELINE_SOURCE_DIR) + "/docs/PROTOCOL.md");
  REQUIRE(file);
  std::string page;
  for (std::string word; file >> word;) page += word + " ";
  return page;
}

TEST_CASE("the bytes of a Push and of a Grant are those of docs/PROTOCOL.md") {
  const std::string page = protocol_page();
  const float values[2] = {1.0F, 2.0F};
  const Payload payload{nullptr, reinterpret_cast<const std::byte*>(values), sizeof(values)};
  const Push push{WorkerId(1, 3), Clock(7), 0, true, 128, Version(5), Revision(80)};
  const std::string push_bytes = hex(encode({push, payload}).value());
  CHECK(push_bytes == "22 11 0a 04 08 01 10 03 10 07 20 01 28 80 01 30 05 38 50");
  CHECK(page.find(push_bytes) != std::string::npos);
  const Grant grant{WorkerId(1, 3),
                    Clock(8),
                    135,
                    Threshold(3),
                    Clock(6),
                    Version(5),
                    Version(6),
                    Revision(96),
                    0.5,
                    1.0,
                    std::chrono::nanoseconds(300),
                    17'280,
                    128};
  const std::string grant_bytes = hex(encode({grant, {}}).value());
  CHECK(grant_bytes ==
        "4a 33 0a 04 08 01 10 03 10 08 18 87 01 22 02 08 03 28 06 30 05 38 06 40 60 "
        "49 00 00 00 00 00 00 e0 3f 51 00 00 00 00 00 00 f0 3f 58 ac 02 60 80 87 01 68 80 01");
  CHECK(page.find(grant_bytes) != std::string::npos);
}

TEST_CASE("the layout hash is the one docs/PROTOCOL.md works out") {
  Layout layout;
  REQUIRE(layout.add("w", {2, 3}).is_ok());
  REQUIRE(layout.add("b", {3}).is_ok());
  std::ostringstream hash;
  hash << std::hex << layout.hash();
  CHECK(hash.str() == "3d22d8b370a6fc7b");
  CHECK(protocol_page().find("`" + hash.str() + "`") != std::string::npos);
}

TEST_CASE("the bytes of a Withdraw are those of docs/PROTOCOL.md") {
  const auto header = encode({Withdraw{WorkerId(1, 3), Clock(7)}, {}});
  REQUIRE(header.is_ok());
  CHECK(hex(*header) == "e2 01 08 0a 04 08 01 10 03 10 07");
  CHECK(protocol_page().find(hex(*header)) != std::string::npos);
}

TEST_CASE("the bytes of messages that travel together are those of docs/PROTOCOL.md") {
  const auto pull = [](std::uint64_t request) { return encode({Pull{.request = request}, {}}).value(); };
  const std::string others = encode(Others{{pull(3)}, {pull(4)}});
  CHECK(hex(others) == "ca 03 06 32 04 08 03 20 01 d2 03 06 32 04 08 04 20 01");
  CHECK(protocol_page().find(hex(others)) != std::string::npos);
}

TEST_CASE("the bytes of an int8 Push are those of docs/PROTOCOL.md") {
  alignas(float) const std::uint8_t bytes[] = {0x00, 0x00, 0x00, 0x3c, 0x7f, 0xc0};  // 2^-7, 127, -64
  const Payload payload{nullptr, reinterpret_cast<const std::byte*>(bytes), sizeof bytes, Encoding::kInt8, 2};
  const Push push{WorkerId(1, 3), Clock(7), 0, true, 128, Version(5), Revision(80)};
  const std::string push_bytes = hex(encode({push, payload}).value());
  CHECK(push_bytes == "22 15 0a 04 08 01 10 03 10 07 20 01 28 80 01 30 05 38 50 40 03 48 02");
  CHECK(protocol_page().find(push_bytes) != std::string::npos);
}

TEST_CASE("an infinite threshold travels as infinite, and zero as zero") {
  CHECK(std::get<Grant>(there_and_back({Grant{.threshold = Threshold::infinite()}, {}}).body)
            .threshold.is_infinite());
  CHECK(std::get<Grant>(there_and_back({Grant{.threshold = Threshold(0)}, {}}).body).threshold ==
        Threshold(0));
}

TEST_CASE("'I hold nothing' travels as such") {
  CHECK(std::get<Pull>(there_and_back({Pull{.have = kNoRevision}, {}}).body).have == kNoRevision);
}

TEST_CASE("a loss that is not a number travels with its fault") {
  const Metric nan{std::numeric_limits<double>::quiet_NaN(), 0, 128};
  const StepReport report{.metric = nan, .fault = "loss is nan"};
  CHECK(std::isnan(std::get<StepReport>(there_and_back({report, {}}).body).metric.loss_sum));
}

TEST_CASE("an empty shard's piece has no payload") {
  CHECK(there_and_back({Push{.offset = 0, .last = true, .samples = 1}, {}}).payload.empty());
}

TEST_CASE("a payload that is not aligned for float is copied to where it is") {
  alignas(float) std::byte bytes[12] = {};
  const float value = 2.5F;
  std::memcpy(bytes + 1, &value, sizeof(value));
  const Message back =
      there_and_back({Push{.last = true, .samples = 1}, {nullptr, bytes + 1, sizeof(value)}});
  CHECK(back.payload.data != bytes + 1);
  CHECK(back.payload.floats()[0] == 2.5F);
  const Message odd =
      there_and_back({Push{.last = true, .samples = 1}, {nullptr, bytes + 1, 5, Encoding::kInt8, 1}});
  CHECK(reinterpret_cast<std::uintptr_t>(odd.payload.data) % alignof(float) == 0);
  CHECK(std::memcmp(odd.payload.data, bytes + 1, 5) == 0);
}

TEST_CASE("free text is made printable and cut to its bound before it is sent") {
  const auto sent = [](const std::string& text) {
    return std::get<Leave>(there_and_back({Leave{text}, {}}).body).fault;
  };
  CHECK(sent("two\nlines\x7f") == "two lines ");
  CHECK(sent("bad \xff byte") == "bad ? byte");
  CHECK(sent(std::string(10'000, 'x')).size() == static_cast<std::size_t>(kTextBytesMax));
  CHECK(sent(std::string(kTextBytesMax - 1, 'x') + "ä") == std::string(kTextBytesMax - 1, 'x'));
}

TEST_CASE("UTF-8 is checked as RFC 3629 says") {
  CHECK(is_printable("plain, ä, ∞, 𝒫"));
  CHECK_FALSE(is_printable("\x1b[31m"));          // a terminal's escape
  CHECK_FALSE(is_printable("\xc0\xaf"));          // overlong
  CHECK_FALSE(is_printable("\xe0\x80\xaf"));      // overlong
  CHECK_FALSE(is_printable("\xf0\x80\x80\xaf"));  // overlong
  CHECK_FALSE(is_printable("\xed\xa0\x80"));      // surrogate
  CHECK_FALSE(is_printable("\xf4\x90\x80\x80"));  // above U+10FFFF
  CHECK_FALSE(is_printable("\xe2\x88"));          // cut off
}

TEST_CASE("a join of another protocol version is delivered, so that both versions can be named") {
  const Join join{.protocol_version = 99, .node = NodeId(2), .threads = 100'000};
  const Join back = std::get<Join>(there_and_back({join, {}}).body);
  CHECK(back.protocol_version == 99);
  CHECK(back.node == NodeId(2));
  CHECK(back.threads == 0);  // what it means there is not known here
  CHECK(std::get<ShardJoin>(there_and_back({ShardJoin{.protocol_version = 98}, {}}).body).protocol_version ==
        98);
}

TEST_CASE("a message that would not fit its frames is refused before it is sent") {
  Join huge{.threads = 1};
  for (int i = 0; i < 60'000; ++i)
    huge.tensors.push_back({"a name of some length " + std::to_string(i), {1}, i});
  const auto refused = encode({huge, {}});
  CHECK(refused.status().code() == StatusCode::kInvalidArgument);
  CHECK(refused.status().message().starts_with("Join: header: got "));
}

TEST_CASE("every message has its name") {
  CHECK(std::string(name_of(Body(Join{}))) == "Join");
  CHECK(std::string(name_of(Body(Push{}))) == "Push");
  CHECK(std::string(name_of(Body(Error{}))) == "Error");
  CHECK(std::string(name_of(Body(Withdraw{}))) == "Withdraw");
  CHECK(std::string(name_of(Body(Saved{}))) == "Saved");
  CHECK(std::string(name_of(Body(ForgetSaved{}))) == "ForgetSaved");
  CHECK(std::string(name_of(Body(NodeAdmitted{}))) == "NodeAdmitted");
  CHECK(std::string(name_of(Body(Peers{}))) == "Peers");
  CHECK(std::string(name_of(Body(StateWanted{}))) == "StateWanted");
  CHECK(std::string(name_of(Body(NodeState{}))) == "NodeState");
  CHECK(std::string(name_of(Body(LocalEvent{}))) == "LocalEvent");
  CHECK(std::string(name_of(Body(FilePiece{}))) == "FilePiece");
}

}  // namespace
}  // namespace paceline::wire
