// What a message of the simulation carries besides its fields: what the simulated node is given, in place of
// a payload of bytes. So it passes the real EventLog like any other message.
#pragma once

#include <memory>
#include <utility>

#include "common/wire/messages.h"

namespace paceline::test {

template <typename T>
wire::Message carrying(wire::Body body, T value) {
  wire::Message message{std::move(body), {}, {}};
  message.payload.owner = std::make_shared<const T>(std::move(value));
  return message;
}

template <typename T>
const T& carried(const wire::Message& message) {
  return *static_cast<const T*>(message.payload.owner.get());
}

}  // namespace paceline::test
