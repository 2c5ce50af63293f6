// LockHolder: the process that a lock's file or object names. Pure but for what is asked of the
// system. Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace cellfeed::io {

// One line, "<process> <host> pid:[<namespace of its number>]".
struct LockHolder {
  int process = 0;  // 0: it is not known
  std::string host;

  static LockHolder this_process();
  static LockHolder parse(std::string_view text);

  bool is_here() const;
  // Of this machine, and ended.
  bool is_dead() const;
  // "process 12 on this host", for messages.
  std::string describe() const;
  std::string line() const;
};

}  // namespace cellfeed::io
