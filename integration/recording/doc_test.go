// Package recording tests that what informd record writes, replayed, gives the events that the
// daemon delivered at that time.
package recording
