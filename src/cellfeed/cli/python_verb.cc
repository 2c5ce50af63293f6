#include "cellfeed/cli/python_verb.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "cellfeed/base/error.h"

namespace cellfeed::cli {

int run_python(const Session& session, std::vector<std::string> arguments) {
  const char* python = std::getenv("CELLFEED_PYTHON");
  if (python == nullptr || *python == '\0')
    throw Error(ErrorKind::kNotFound,
                "this verb runs in Python: use the cellfeed command that pip installed, or name "
                "the interpreter in CELLFEED_PYTHON");
  arguments.insert(arguments.begin(), {python, "-m", "cellfeed._program"});
  if (session.json) arguments.emplace_back("--json");
  if (session.quiet) arguments.emplace_back("--quiet");
  std::vector<char*> raw;
  for (std::string& argument : arguments) raw.push_back(argument.data());
  raw.push_back(nullptr);
  // Modules of the folder that it runs in are not Python's.
  ::setenv("PYTHONSAFEPATH", "1", 1);
  ::execvp(python, raw.data());
  throw_error(ErrorKind::kIo, python, "cannot be run: {}", std::strerror(errno));
}

}  // namespace cellfeed::cli
