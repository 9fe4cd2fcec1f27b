// Package admin answers operators' questions about a plan at work, and does what operators ask.
//
//	status.go   the state of everything, and metrics.go those of manifests
//	explain.go  why a rule does, or does not, deliver anything about an object
//	events.go   what became of the last changes
//	targets.go  what rules' own actions act on, and what came of it
//	letters.go  dead letters, pauses and retries
//	resync.go   a rule sees all objects once more
//	preview.go  what another plan would change
package admin
