// Which addresses only this machine reaches.
#pragma once

#include <string_view>

namespace paceline {

// Whether `host` is 127.x.y.z in numbers; a name like 127.0.0.1.example.org is not.
bool is_loopback_number(std::string_view host);

// Of an endpoint as the schema lets it pass, "tcp://host:port" or "ipc://path": ipc, or localhost, or
// 127.x.y.z. [::1] is none: sockets speak IPv4 alone.
bool stays_on_this_machine(std::string_view endpoint);

}  // namespace paceline
