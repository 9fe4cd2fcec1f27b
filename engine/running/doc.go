// Package running puts the live parts of a plan together, and knows in what two plans differ.
//
//	work.go     Work: a plan at work, and what it consists of
//	build.go    Parts: what all works of an engine are made of; how one is built
//	present.go  Present: the plan at work, and the next one while a reload carries it out
//	renames.go  which rule goes on in which
//	differ.go   what differs between the plan at work and another one
//	secrets.go  which handlers may see text of Secrets
//	metrics.go  the metrics of manifests
//	pruning.go  what rules with prune do beside their deliveries
package running
