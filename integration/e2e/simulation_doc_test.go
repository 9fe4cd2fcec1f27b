// Package simulation compares the simulator with the engine that it claims to be: random rules and
// random histories run through both, and their events are compared one by one.
package e2e
