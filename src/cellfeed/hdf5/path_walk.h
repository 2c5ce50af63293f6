// PathWalk: many paths followed at once, a few round trips a level. Internal to file.cc.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/hdf5/file.h"
#include "cellfeed/hdf5/file_state.h"

namespace cellfeed::hdf5 {

class PathWalk {
 public:
  PathWalk(std::shared_ptr<const FileState> file, std::shared_ptr<const ObjectNode> start,
           std::string start_path)
      : file_(std::move(file)), start_(std::move(start)), start_path_(std::move(start_path)) {}

  std::vector<std::optional<Object>> find(std::span<const std::string> paths);

 private:
  struct Walker {
    std::shared_ptr<const FileState> file;  // that it is in
    std::shared_ptr<const ObjectNode> at;   // null: the path leads nowhere
    std::deque<std::string> steps;          // still to go
    std::string path;                       // as it was asked for
    int n_links = 0;                        // soft ones
    Address next = kUndefinedAddress;       // to be read; defined within a round only
  };

  void add_steps(Walker& walker, std::string_view path) const;
  // Goes one link further; leaves in next what is to be read.
  void step(Walker& walker) const;
  void follow(Walker& walker, const Link& link) const;
  void count_link(Walker& walker) const;
  // Reads what walkers are to reach next, file by file.
  void arrive(std::span<Walker> walkers) const;
  void fetch_links(std::span<const Walker> walkers) const;
  [[noreturn]] void refuse_link(const Walker& walker, const Link& link) const;

  std::shared_ptr<const FileState> file_;
  std::shared_ptr<const ObjectNode> start_;
  std::string start_path_;
};

}  // namespace cellfeed::hdf5
