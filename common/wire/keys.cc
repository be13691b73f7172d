#include "common/wire/keys.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/files/atomic_file.h"
#include "common/wire/zmq_curve.h"

namespace paceline::wire {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKeyFileBytesMax = 4096;
constexpr mode_t kOthersRead = 077;  // any right of group or others
constexpr mode_t kOthersWrite = 022;

std::string mode_text(mode_t mode) {
  char text[8];
  std::snprintf(text, sizeof text, "%04o", static_cast<unsigned>(mode & 07777));
  return text;
}

// Ours, and without these rights for anybody else.
Status check_owned(const fs::path& path, mode_t forbidden, const std::string& remedy) {
  struct stat about = {};
  if (stat(path.c_str(), &about) != 0) {
    const int error = errno;
    return failed_precondition("cannot read " + path.string() + ": " + std::strerror(error) +
                               (error == ENOENT ? "; `paceline keygen` makes keys" : ""));
  }
  if (about.st_uid != geteuid()) {
    return failed_precondition(path.string() + ": got a file of user " + std::to_string(about.st_uid) +
                               ", expected one of user " + std::to_string(geteuid()) + ", who runs this");
  }
  if ((about.st_mode & forbidden) == 0) return Status::ok();
  return failed_precondition(path.string() + ": got mode " + mode_text(about.st_mode) + ", expected " +
                             remedy);
}

Status check_folder(const fs::path& folder) {
  return check_owned(folder, kOthersWrite, "a folder into which nobody else can write (chmod 700)");
}

constexpr const char* kPublicFile = "a file that nobody else can write (chmod 644)";

// The one key in a file; what is wrong with it never says what is in it.
Result<std::string> read_key(const fs::path& path) {
  auto text = read_file(path, kKeyFileBytesMax);
  if (!text) return failed_precondition(text.status().message());
  std::string key;
  int line_number = 0;
  int key_line = 0;
  for (std::string_view rest = *text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++line_number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line == "#" || line.starts_with("# ")) continue;  // a key has no space in it
    const std::string where = path.string() + ":" + std::to_string(line_number) + ": ";
    if (key_line != 0) {
      return invalid_argument(where + "got a second key, expected only that of line " +
                              std::to_string(key_line));
    }
    if (line.size() != kKeyCharacters) {
      return invalid_argument(where + "got " + std::to_string(line.size()) +
                              " characters, expected a key of " + std::to_string(kKeyCharacters));
    }
    key = line;
    key_line = line_number;
    if (!is_key(key)) return invalid_argument(where + "got no key, expected 40 characters of Z85");
  }
  if (key_line == 0) return invalid_argument(path.string() + ":1: got no key, expected one of 40 characters");
  return key;
}

fs::path public_file(const fs::path& folder, const std::string& name) { return folder / (name + ".pub"); }
fs::path secret_file(const fs::path& folder, const std::string& name) { return folder / (name + ".key"); }

Result<std::string> read_public(const fs::path& folder, const std::string& name) {
  const fs::path path = public_file(folder, name);
  PACELINE_RETURN_IF_ERROR(check_owned(path, kOthersWrite, kPublicFile));
  return read_key(path);
}

Result<KeyPair> read_pair(const fs::path& folder, const std::string& name) {
  const fs::path path = secret_file(folder, name);
  PACELINE_RETURN_IF_ERROR(check_owned(path, kOthersRead, "a secret that nobody else can read (chmod 600)"));
  PACELINE_ASSIGN_OR_RETURN(std::string secret, read_key(path));
  auto public_key = public_key_of(secret);
  if (!public_key) return Status(public_key.status()).with_context(path.string());
  return KeyPair{*std::move(public_key), std::move(secret)};
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// A new file, which must not be there.
Status write_new(const fs::path& path, const std::string& text, mode_t mode) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  const bool written = file >= 0 &&
                       ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       ::fchmod(file, mode) == 0 && ::fsync(file) == 0;  // whatever the umask says
  const int error = errno;
  if (file >= 0) ::close(file);
  if (written) return Status::ok();
  const std::string line = "cannot write " + path.string() + ": " + std::strerror(error);
  return error == EEXIST ? failed_precondition(line) : unavailable(line);
}

Status write_pair(const fs::path& folder, const std::string& name, const std::string& whose) {
  PACELINE_ASSIGN_OR_RETURN(const KeyPair pair, new_key_pair());
  PACELINE_RETURN_IF_ERROR(write_new(secret_file(folder, name),
                                     "# Paceline: the secret key of " + whose +
                                         ". Whoever has it is taken for it.\n" + pair.secret_key + "\n",
                                     0600));
  return write_new(public_file(folder, name),
                   "# Paceline: the public key of " + whose + ".\n" + pair.public_key + "\n", 0644);
}

// "keys" for "keys/" and "keys/.".
fs::path without_slash(fs::path folder) {
  while ((!folder.has_filename() || folder.filename() == ".") && folder.has_parent_path() &&
         folder.parent_path() != folder) {
    folder = folder.parent_path();
  }
  return folder;
}

// The names of the keys that a server lets in, besides the servers' own. Not both kinds: who has node.key
// could join as one of those that have a key of their own.
Result<std::vector<std::string>> names_of_nodes(const fs::path& folder, std::uint32_t nodes) {
  const fs::path any = public_file(folder, kAnyNodesKey);
  const bool one_for_all = is_there(any);
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < nodes; ++i) {
    const fs::path own = public_file(folder, node_key_name(i));
    const bool has_own = is_there(own);
    if (has_own && one_for_all) {
      return failed_precondition(any.string() + " lies beside " + own.filename().string() +
                                 ", so whoever has node.key could join as node " + std::to_string(i) +
                                 ", too; expected node.pub alone, or a node-I.pub for each node and no "
                                 "node.pub");
    }
    if (!has_own && !one_for_all) {
      return failed_precondition(own.string() + " is not there, so node " + std::to_string(i) +
                                 " could not join; expected it, or node.pub for all nodes");
    }
    if (has_own) names.push_back(node_key_name(i));
  }
  if (one_for_all) names.emplace_back(kAnyNodesKey);
  return names;
}

std::string whose_key(const std::string& name) {
  if (name == kServerKey) return "the servers";
  return name == kAnyNodesKey ? "all nodes" : "node " + name.substr(name.find('-') + 1);
}

}  // namespace

std::string node_key_name(std::uint32_t node) {
  return std::string(kAnyNodesKey) + "-" + std::to_string(node);
}

bool may_be_node(const std::string& key_name, std::uint32_t node) {
  return key_name == kAnyNodesKey || key_name == node_key_name(node);
}

Result<std::vector<std::string>> make_keys(const fs::path& given, std::optional<std::uint32_t> nodes) {
  PACELINE_RETURN_IF_ERROR(check_curve());
  const fs::path folder = without_slash(given);
  std::vector<std::string> names{kServerKey};
  if (!nodes) names.push_back(kAnyNodesKey);
  for (std::uint32_t i = 0; i < nodes.value_or(0); ++i) names.push_back(node_key_name(i));

  if (!is_there(folder)) {
    std::error_code error;
    if (folder.has_parent_path()) fs::create_directories(folder.parent_path(), error);
    if (error || ::mkdir(folder.c_str(), 0700) != 0) {
      return unavailable("cannot create " + folder.string() + ": " +
                         (error ? error.message() : std::strerror(errno)));
    }
  }
  PACELINE_RETURN_IF_ERROR(check_folder(folder));
  for (const std::string& name : names) {
    for (const fs::path& file : {secret_file(folder, name), public_file(folder, name)}) {
      if (is_there(file)) {
        return failed_precondition(
            file.string() + " is there already: whoever uses it would be locked out; choose another folder");
      }
    }
  }
  std::vector<std::string> files;
  for (const std::string& name : names) {
    PACELINE_RETURN_IF_ERROR(write_pair(folder, name, whose_key(name)));
    files.push_back(secret_file("", name).string());
    files.push_back(public_file("", name).string());
  }
  return files;
}

Result<ServerKeys> read_server_keys(const fs::path& folder, std::uint32_t nodes) {
  PACELINE_RETURN_IF_ERROR(check_curve());
  PACELINE_RETURN_IF_ERROR(check_folder(folder));
  ServerKeys keys;
  PACELINE_ASSIGN_OR_RETURN(keys.own, read_pair(folder, kServerKey));
  keys.allowed[keys.own.public_key] = kServerKey;  // the other shards, at the authority
  PACELINE_ASSIGN_OR_RETURN(const std::vector<std::string> names, names_of_nodes(folder, nodes));
  for (const std::string& name : names) {
    PACELINE_ASSIGN_OR_RETURN(const std::string key, read_public(folder, name));
    const auto [known, is_new] = keys.allowed.emplace(key, name);
    if (!is_new) {
      return invalid_argument(public_file(folder, name).string() + " is the key of " +
                              public_file(folder, known->second).string() +
                              ", too; expected a key for each (or node.pub alone for all nodes)");
    }
  }
  return keys;
}

Result<ClientKeys> read_node_keys(const fs::path& folder, std::uint32_t node) {
  PACELINE_RETURN_IF_ERROR(check_curve());
  PACELINE_RETURN_IF_ERROR(check_folder(folder));
  ClientKeys keys;
  const bool own = is_there(secret_file(folder, node_key_name(node)));
  keys.own_name = own || !is_there(secret_file(folder, kAnyNodesKey)) ? node_key_name(node) : kAnyNodesKey;
  PACELINE_ASSIGN_OR_RETURN(keys.own, read_pair(folder, keys.own_name));
  PACELINE_ASSIGN_OR_RETURN(keys.server, read_public(folder, kServerKey));
  return keys;
}

Result<ClientKeys> read_shard_keys(const fs::path& folder) {
  PACELINE_RETURN_IF_ERROR(check_curve());
  PACELINE_RETURN_IF_ERROR(check_folder(folder));
  ClientKeys keys;
  keys.own_name = kServerKey;
  PACELINE_ASSIGN_OR_RETURN(keys.own, read_pair(folder, kServerKey));
  keys.server = keys.own.public_key;
  return keys;
}

}  // namespace paceline::wire
