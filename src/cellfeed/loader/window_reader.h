// WindowReader: a thread that reads the windows of a pass, one or more ahead of the driver that
// takes them, so that a disk that is waited for is always busy.
//
// take() is for one thread; the rest is the reader's own. Lifetime: the queue and the plan outlive
// it; its windows may outlive it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "cellfeed/exec/thread_pool.h"
#include "cellfeed/loader/batch_queue.h"
#include "cellfeed/loader/loader_core.h"
#include "cellfeed/loader/window.h"
#include "cellfeed/loader/window_size.h"

namespace cellfeed::loader {

class WindowReader {
 public:
  // Begins to read. pool: inflates. stop: of the pass. Throws kIo where there is no thread to be
  // had.
  WindowReader(std::shared_ptr<const LoaderCore> core, const BatchSequence& batches,
               exec::ThreadPool& pool, const BatchQueue& queue, const std::stop_token& stop);
  // Ends the reading, and waits for what cannot be ended: reads of local disks.
  ~WindowReader();
  WindowReader(const WindowReader&) = delete;
  WindowReader& operator=(const WindowReader&) = delete;

  // The next window, read. Null after the last and once the pass is stopped. After the windows
  // before an error, the error.
  std::shared_ptr<Window> take();

 private:
  // Windows that are not destroyed, of one pass.
  struct LiveWindows {
    explicit LiveWindows(std::shared_ptr<const LoaderCore> loader_core)
        : core(std::move(loader_core)) {}
    const std::shared_ptr<const LoaderCore> core;
    std::atomic<std::int64_t> n{0};
  };

  void run() noexcept;
  std::exception_ptr read_until_over();
  std::shared_ptr<Window> make_window(PlannedWindow planned);
  bool has_room_ahead(bool waits);
  bool admit(Window& window, bool waits);
  void begin(Window& window);
  void finish(Window& window);
  void hand_over(std::shared_ptr<Window> window);

  const std::shared_ptr<const LoaderCore> core_;
  const BatchSequence batches_;
  exec::ThreadPool& pool_;
  const BatchQueue& queue_;
  const std::shared_ptr<LiveWindows> live_;

  std::mutex mutex_;
  std::condition_variable_any changed_;
  // Guarded by mutex_. A list: windows are handed over without memory.
  std::list<std::shared_ptr<Window>> read_;  // and not yet taken
  std::int64_t windows_ahead_ = 0;           // begun, and not yet taken
  std::int64_t bytes_ahead_ = 0;             // of their rows, as stored
  std::int64_t read_ahead_bytes_ = 0;        // to have ahead, as the stores of the last one say
  std::exception_ptr error_;                 // comes after read_
  bool is_read_out_ = false;                 // there will be no more windows

  std::stop_source stop_;  // of the pass, or of whoever takes windows
  const std::stop_callback<std::function<void()>> on_stop_;
  std::jthread thread_;  // the last: it uses all of the above
};

}  // namespace cellfeed::loader
