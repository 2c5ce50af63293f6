// Amazon's S3, and stores that speak its language.
#pragma once

#include "cellfeed/cloud/object_store.h"

namespace cellfeed::cloud {

const ObjectStore& s3_store();

}  // namespace cellfeed::cloud
