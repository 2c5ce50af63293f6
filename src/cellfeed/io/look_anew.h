// File systems over a slow link remember for a moment what they learned of paths. Who begins to
// open what a user names has them ask anew. Thread-safe.
#pragma once

#include <functional>

namespace cellfeed::io {

void look_anew();
// For a file system that remembers; it is called for good.
void on_look_anew(std::function<void()> forget);

}  // namespace cellfeed::io
