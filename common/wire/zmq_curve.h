// What ZeroMQ knows of keys (zmq_curve.cc): making a pair, and telling a key from other text.
//
// Thread: any.
#pragma once

#include <string>

#include "common/status.h"
#include "common/wire/keys.h"

namespace paceline::wire {

inline constexpr std::size_t kKeyCharacters = 40;

Result<KeyPair> new_key_pair();
// The public part of a secret key. Errors: kInvalidArgument it is none.
Result<std::string> public_key_of(const std::string& secret_key);
// Whether this is 32 bytes in Z85.
bool is_key(const std::string& text);
// 32 bytes as text.
std::string key_text(const void* bytes);

}  // namespace paceline::wire
