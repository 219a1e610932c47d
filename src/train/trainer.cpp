#include "temper/train/trainer.h"

#include "train/loop.h"

namespace temper {

Trainer::Trainer(const TrainerParts& parts, const TrainerOptions& options)
    : loop_(std::make_unique<Loop>(parts, options)) {}
Trainer::~Trainer() = default;

void Trainer::restore(const Value& checkpoint) { loop_->restore(checkpoint); }
StopReason Trainer::run() { return loop_->run(); }
const Progress& Trainer::progress() const { return loop_->progress; }

}  // namespace temper
