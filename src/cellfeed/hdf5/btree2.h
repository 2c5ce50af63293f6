// Version 2 B-tree: records of one size in nodes. HDF5 File Format Specification 4.0, III.A.2.
// Thread-safe. Lifetime: the FileBytes outlives it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "cellfeed/hdf5/cursor.h"
#include "cellfeed/hdf5/file_bytes.h"

namespace cellfeed::hdf5 {

// "Type" of the header: what its records are.
enum class BTree2Type : std::uint8_t {
  kHugeObjects = 1,
  kFilteredHugeObjects = 2,
  kDirectHugeObjects = 3,
  kDirectFilteredHugeObjects = 4,
  kLinkNames = 5,
  kAttributeNames = 8,
  kChunks = 10,
  kFilteredChunks = 11,
};

class BTree2 {
 public:
  // Reads the header. what: the use of the tree, for errors. Throws kCorruptData.
  BTree2(const FileBytes& file, Address header);

  BTree2Type type() const { return type_; }
  std::uint64_t record_bytes() const { return record_bytes_; }
  // As the header says.
  std::uint64_t n_records() const { return n_records_; }
  // Throws kCorruptData unless the tree has this type and records of at least this size.
  void require(BTree2Type type, std::uint64_t min_record_bytes) const;

  // Every record, in no order: a round trip a level. Throws kCorruptData, also where there are
  // more or fewer than the header says.
  std::vector<Bytes> read_records() const;
  // The record for which compare gives 0. compare: below 0 where what is sought stands before the
  // record, above 0 behind it. A round trip a level.
  std::optional<Bytes> find(const std::function<int(std::span<const std::byte>)>& compare) const;

  // As find, for many at once: calls found(i, record) where there is a record for the i-th thing
  // sought. A round trip a level for all of them. REQUIRES: they are in the order of the tree.
  using CompareSought = std::function<int(std::size_t, std::span<const std::byte>)>;
  using Found = std::function<void(std::size_t, const Bytes&)>;
  void find_many(std::size_t n_sought, const CompareSought& compare, const Found& found) const;

 private:
  // A node as its parent knows it. depth 0 is a leaf.
  struct Node {
    Address address = 0;
    std::uint64_t n_records = 0;
    int depth = 0;
  };
  struct ReadNode {
    Cursor records;
    std::vector<Node> children;
  };
  // What a node of a depth holds at most, and how wide its pointers are.
  struct Level {
    std::uint64_t max_records = 0;
    std::uint64_t all_records = 0;  // of the whole subtree
    int all_records_bytes = 0;
  };

  void set_levels(Cursor& header);
  std::uint64_t pointer_bytes(int depth) const;
  // What is sought below a node: [begin, end).
  struct Sought {
    Node node;
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  void find_in_node(const Sought& sought, const CompareSought& compare, const Found& found,
                    std::vector<Sought>& below) const;
  ReadNode read_node(const Node& node) const;
  [[noreturn]] void fail(const char* what) const;

  const FileBytes* file_;
  Address header_;
  BTree2Type type_ = BTree2Type::kLinkNames;
  std::uint64_t node_bytes_ = 0;
  std::uint64_t record_bytes_ = 0;
  std::uint64_t n_records_ = 0;
  Node root_;
  std::vector<Level> levels_;
  int n_records_bytes_ = 0;  // of the count of records in a child pointer
};

}  // namespace cellfeed::hdf5
