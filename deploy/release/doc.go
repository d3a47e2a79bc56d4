// Command release builds what users install: archives of static binaries for Linux and macOS, deb and rpm packages, an image for two architectures, a bill
// of materials, and checksums. Two builds of one commit are equal byte for byte. It is a module of its own, which keeps its libraries out of the
// product's go.mod.
package main
