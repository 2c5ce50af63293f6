// One request and its answer, for who waits for it. Given up (kCancelled) where the StopScope of
// the caller ends. Thread-safe; not from the loop's thread. REQUIRES: no range with a buffer.
#pragma once

#include "cellfeed/cloud/http/http_loop.h"

namespace cellfeed::cloud {

HttpAnswer ask(HttpRequest request, const HttpTimeouts& timeouts = {});
// Asks again where the answer is one that may be another later, until the deadline of reads; what
// is sent has as much time as a slow link needs besides.
HttpAnswer ask_until_answered(const HttpRequest& request);

}  // namespace cellfeed::cloud
