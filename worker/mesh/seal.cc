#include "worker/mesh/seal.h"

#include <sodium.h>

#include <utility>

#include "common/assert.h"

namespace paceline::mesh {

static_assert(Seal::kOverheadBytes == crypto_secretstream_xchacha20poly1305_ABYTES);
static_assert(Seal::kProofBytes == crypto_secretstream_xchacha20poly1305_HEADERBYTES + Seal::kOverheadBytes);
static_assert(sizeof(PublicKey) == crypto_kx_PUBLICKEYBYTES);
static_assert(sizeof(FormationKey) == crypto_generichash_KEYBYTES);
static_assert(crypto_kx_SESSIONKEYBYTES == crypto_secretstream_xchacha20poly1305_KEYBYTES);

namespace {

constexpr std::size_t kHeaderBytes = crypto_secretstream_xchacha20poly1305_HEADERBYTES;
using DirectionKey = std::array<unsigned char, crypto_kx_SESSIONKEYBYTES>;

void require_sodium() {
  static const bool ready = sodium_init() >= 0;
  PACELINE_ASSERT(ready, "libsodium does not start");
}

const unsigned char* raw(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }
unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

}  // namespace

LibraryVersion sodium_version() { return {"libsodium", SODIUM_VERSION_STRING, sodium_version_string()}; }

struct Seal::Streams {
  DirectionKey send_key, receive_key;  // until the proofs are made and have come
  crypto_secretstream_xchacha20poly1305_state sends, receives;
};

Seal::Seal(std::unique_ptr<Streams> streams) : streams_(std::move(streams)) {}
Seal::~Seal() { sodium_memzero(streams_.get(), sizeof(Streams)); }

Seal::Proof Seal::proof() {
  Proof proof;
  crypto_secretstream_xchacha20poly1305_init_push(&streams_->sends, raw(proof.data()),
                                                  streams_->send_key.data());
  sodium_memzero(streams_->send_key.data(), sizeof(DirectionKey));
  seal({}, std::span(proof).subspan(kHeaderBytes));
  return proof;
}

bool Seal::is_proven(const Proof& by_the_other) {
  const bool is_header =
      crypto_secretstream_xchacha20poly1305_init_pull(&streams_->receives, raw(by_the_other.data()),
                                                      streams_->receive_key.data()) == 0;
  if (!is_header || !open(std::span(by_the_other).subspan(kHeaderBytes), {})) return false;
  sodium_memzero(streams_->receive_key.data(), sizeof(DirectionKey));
  return true;
}

void Seal::seal(std::span<const std::byte> plain, std::span<std::byte> sealed) {
  PACELINE_ASSERT(sealed.size() == plain.size() + kOverheadBytes, "a frame of another size");
  crypto_secretstream_xchacha20poly1305_push(&streams_->sends, raw(sealed.data()), nullptr, raw(plain.data()),
                                             plain.size(), nullptr, 0, 0);
}

bool Seal::open(std::span<const std::byte> sealed, std::span<std::byte> plain) {
  PACELINE_ASSERT(sealed.size() == plain.size() + kOverheadBytes, "a frame of another size");
  unsigned char tag = 0;
  return crypto_secretstream_xchacha20poly1305_pull(&streams_->receives, raw(plain.data()), nullptr, &tag,
                                                    raw(sealed.data()), sealed.size(), nullptr, 0) == 0;
}

KeyExchange::KeyExchange() {
  require_sodium();
  crypto_kx_keypair(raw(public_.data()), raw(secret_.data()));
}

KeyExchange::~KeyExchange() { sodium_memzero(secret_.data(), secret_.size()); }

std::unique_ptr<Seal> KeyExchange::agree(bool connects, const FormationKey& key, const PublicKey& other,
                                         std::span<const std::byte> hellos) const {
  const auto session_keys = connects ? crypto_kx_client_session_keys : crypto_kx_server_session_keys;
  DirectionKey receives, sends;
  if (session_keys(receives.data(), sends.data(), raw(public_.data()), raw(secret_.data()),
                   raw(other.data())) != 0) {
    return nullptr;
  }
  const auto direction_key = [&](const DirectionKey& of, DirectionKey& made) {
    crypto_generichash_state hash;
    crypto_generichash_init(&hash, raw(key.data()), key.size(), made.size());
    crypto_generichash_update(&hash, of.data(), of.size());
    crypto_generichash_update(&hash, raw(hellos.data()), hellos.size());
    crypto_generichash_final(&hash, made.data(), made.size());
    sodium_memzero(&hash, sizeof hash);
  };
  auto streams = std::make_unique<Seal::Streams>();
  direction_key(sends, streams->send_key);
  direction_key(receives, streams->receive_key);
  sodium_memzero(sends.data(), sends.size());
  sodium_memzero(receives.data(), receives.size());
  return std::unique_ptr<Seal>(new Seal(std::move(streams)));
}

}  // namespace paceline::mesh
