// Seals: how what two nodes of a run with keys say to each other is encrypted and authenticated. libsodium does both.
//
// The authority gives the nodes of a formation 32 random bytes, its key, over connections that CURVE protects
// (common/wire/messages.h, Peers): so only who holds keys of the run has it. For each connection both ends draw a new
// pair of X25519 and say its public part. From that crypto_kx makes a key for each direction, and
//
//   key of a direction = BLAKE2b(crypto_kx's key, both Hellos; keyed with the formation's key)
//
// as in the pattern NNpsk0 of the Noise protocol framework (revision 34, section 9): who has not the formation's key
// makes another one, and who learns it later reads nothing of before. Then each end proves that it has the key of what
// it sends. What follows are frames of secretstream (XChaCha20-Poly1305, libsodium's documentation): none can be
// changed, left out, repeated or moved unnoticed, and those of another connection have another key.
//
// Thread: one.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "common/formation_key.h"
#include "common/library_version.h"

namespace paceline::mesh {

LibraryVersion sodium_version();

using PublicKey = std::array<std::byte, 32>;

// Both directions of one connection.
class Seal {
 public:
  static constexpr std::size_t kOverheadBytes = 17;  // of a frame
  static constexpr std::size_t kProofBytes = 24 + kOverheadBytes;
  using Proof = std::array<std::byte, kProofBytes>;

  ~Seal();
  Seal(const Seal&) = delete;
  Seal& operator=(const Seal&) = delete;

  // What is sent first, once, and what has to come first. Whether it is of who has the same key.
  Proof proof();
  bool is_proven(const Proof& by_the_other);
  // `sealed`: of plain.size() + kOverheadBytes.
  void seal(std::span<const std::byte> plain, std::span<std::byte> sealed);
  // Into `plain`, of sealed.size() - kOverheadBytes. Whether it is the next frame of the other end; nothing is written
  // else.
  bool open(std::span<const std::byte> sealed, std::span<std::byte> plain);

 private:
  friend class KeyExchange;
  struct Streams;
  explicit Seal(std::unique_ptr<Streams> streams);
  const std::unique_ptr<Streams> streams_;
};

// One end's pair, for one connection.
class KeyExchange {
 public:
  KeyExchange();
  ~KeyExchange();
  KeyExchange(const KeyExchange&) = delete;
  KeyExchange& operator=(const KeyExchange&) = delete;

  const PublicKey& own() const { return public_; }
  // `connects`: this end has connected, the other one has accepted. `hellos`: what both have said so
  // far, first who has connected. Null: the other's is no public key.
  std::unique_ptr<Seal> agree(bool connects, const FormationKey& key, const PublicKey& other,
                              std::span<const std::byte> hellos) const;

 private:
  PublicKey public_ = {};
  std::array<std::byte, 32> secret_ = {};
};

}  // namespace paceline::mesh
