// Holds the precompiled header that other targets reuse.
