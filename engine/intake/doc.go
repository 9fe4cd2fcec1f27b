// Package intake takes the steps of informers: it has each step evaluated for the rules of its informer,
// and commits what follows in one cut.
//
//	intake.go    Intake: what an informer calls, one step at a time
//	judge.go     has rules see an object, and commits what they make of it
//	sinks.go     where a change goes: the rules' lanes, what waits in time, gauges, the record
//	learning.go  what rules still have to learn before they follow the informer: as data
//	catchup.go   has rules catch up, in turns (package follow has the table)
//	resuming.go  the same from a cut, after a restart
//	parting.go   what became of objects in informers that rules have left
//	waiting.go   rules that wait for other sources
//	succeed.go   an intake takes the place of another one of the same informer: a reload
//
// A step goes through Intake.Take, the judge and the sinks, in this order. None of them calls back.
package intake
