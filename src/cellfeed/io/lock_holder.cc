#include "cellfeed/io/lock_holder.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>

namespace cellfeed::io {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// Where numbers of processes are of these and no others: of containers that share the name of a
// machine, each counts its own.
std::string number_space() {
  std::array<char, 64> name{};
  const auto n = ::readlink("/proc/self/ns/pid", name.data(), name.size() - 1);
  return n > 0 ? fmt::format("{} {}", host_name(), name.data()) : host_name();
}

}  // namespace

LockHolder LockHolder::this_process() { return {::getpid(), number_space()}; }

LockHolder LockHolder::parse(std::string_view text) {
  text = text.substr(0, text.find('\n'));
  LockHolder holder;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), holder.process);
  if (error != std::errc() || end == text.data() + text.size() || *end != ' ') return {};
  holder.host = text.substr(static_cast<std::size_t>(end - text.data()) + 1);
  return holder;
}

bool LockHolder::is_here() const { return process > 0 && host == number_space(); }

bool LockHolder::is_dead() const { return is_here() && ::kill(process, 0) != 0 && errno == ESRCH; }

std::string LockHolder::describe() const {
  if (process <= 0) return "another process";
  return fmt::format("process {}{}", process, is_here() ? "" : " on " + host);
}

std::string LockHolder::line() const { return fmt::format("{} {}\n", process, host); }

}  // namespace cellfeed::io
