// Package gobuild compiles a program so that the same source and the same Go
// give the same bytes, in whatever folder and for whichever platform.
package gobuild
