// Trains a classifier; starts one process a GPU unless a launcher started this one.

#include "temper/apps/trainer_program.h"

int main(int argc, char** argv) { return temper::run_trainer(argc, argv); }
