/** Gives the samples that a microphone hears, block by block. */
class Recorder extends AudioWorkletProcessor {
  process([[samples]]) {
    if (samples) this.port.postMessage(samples.slice()) // the browser uses its memory again
    return true
  }
}

registerProcessor('recorder', Recorder)
