// Package config is the adapter's configuration file: defaults, strict parsing,
// and a validation that reports every problem with its field path. It starts
// nothing and reads no other file.
package config
