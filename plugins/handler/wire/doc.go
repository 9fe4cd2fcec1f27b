// Package wire translates between package handler and the messages of handlerpb, for both sides of
// the protocol.
//
// What is large or frequent it encodes and decodes by hand, because protobuf's generated code
// copies each object twice: the events that informd sends ([Encoder]), the events that a handler
// receives ([Request]), and the elements of the cache's pages ([AppendElement]). Everything else
// goes through the generated code. [Codec] is the one gRPC codec for all of it.
//
// It also has the keys of the cache's objects, their order ([CompareKeys]), and which part of them
// an answer holds ([Part]); and answers as programs print them ([Verdict]).
//
// An Encoder writes bytes that protobuf reads as the same message, and a Request accepts exactly
// what protobuf accepts. Tests hold both against google.golang.org/protobuf.
//
// The package knows nothing of streams, processes or policies, and keeps no state between messages
// but the buffers that its types document.
package wire
