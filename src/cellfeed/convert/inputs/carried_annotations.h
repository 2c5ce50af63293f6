// CarriedAnnotations: uns and varm of the one input of a conversion or export, which go along as
// they are. Not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cellfeed/convert/h5ad_output.h"
#include "cellfeed/convert/inputs/sources.h"
#include "cellfeed/format/h5ad/carried_groups.h"
#include "cellfeed/format/shard/annotations.h"
#include "cellfeed/format/stored_tree.h"

namespace cellfeed::convert {

class CarriedAnnotations {
 public:
  // Nothing, unless there is one input, an AnnData in a file or store, or a shard directory. uns
  // without what it says of X where another matrix becomes X; varm where all genes of the input are
  // written, in the order of its source.
  // restores_gene_order: genes of shards in mean order are written in the order of their source.
  CarriedAnnotations(const InputCells& input, const Sources& sources, bool restores_gene_order);

  // Their file in a shard directory; none where there is nothing. Throws what reading and writing
  // throw, kCorruptData where the input changed meanwhile.
  std::optional<format::shard::FileEntry> write_to(const io::Directory& directory,
                                                   format::shard::Generation generation);
  // REQUIRES: all rows were appended.
  void write_to(H5adOutput& output);
  // A sentence for users; empty where all was carried.
  std::string left_out_text() const;

 private:
  void find_groups(const Sources& sources);
  void skip_old_categories(const Sources& sources);
  void find_varm(const Sources& sources);
  void note_written(const std::vector<std::string>& left_out);

  std::string input_;
  bool has_genes_of_input_ = false;           // all, in its order
  std::unique_ptr<format::StoredTree> tree_;  // null where nothing is carried
  format::h5ad::CarriedFrom from_;            // the same, as it is copied
  format::h5ad::CarriedGroups groups_;
  std::vector<std::string> left_out_;
};

// On a line of its own.
void add_sentence(std::string& text, const std::string& sentence);

}  // namespace cellfeed::convert
