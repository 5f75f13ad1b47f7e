const SIZE = 512 // samples of a transform: 32 ms of 16,000 a second
const MOST_COLUMNS = 1000
const RANGE = 8 // of natural logarithms below the loudest, 70 dB of power

const hann = Float32Array.from({ length: SIZE }, (_, at) => 0.5 - 0.5 * Math.cos((2 * Math.PI * at) / SIZE))

/** Transform complex numbers in place, of as many as a power of two (Cooley and Tukey 1965). */
function transform(real, imaginary) {
  const count = real.length
  for (let at = 1, to = 0; at < count; at++) { // bits of places turned round
    let bit = count >> 1
    for (; to & bit; bit >>= 1) to ^= bit
    to ^= bit
    if (at < to) {
      const [re, im] = [real[at], imaginary[at]]
      real[at] = real[to]
      imaginary[at] = imaginary[to]
      real[to] = re
      imaginary[to] = im
    }
  }
  for (let half = 1; half < count; half *= 2) {
    for (let step = 0; step < half; step++) {
      const [cosine, sine] = [Math.cos((Math.PI * step) / half), -Math.sin((Math.PI * step) / half)]
      for (let one = step; one < count; one += 2 * half) {
        const other = one + half
        const re = real[other] * cosine - imaginary[other] * sine
        const im = real[other] * sine + imaginary[other] * cosine
        real[other] = real[one] - re
        imaginary[other] = imaginary[one] - im
        real[one] += re
        imaginary[one] += im
      }
    }
  }
}

/**
 * Return the logarithms of the amplitudes of a sound, high frequencies first: {values, rows, columns, low, top}. A row
 * is a frequency, from half the rate down to zero; columns are at equal distances, each of SIZE samples.
 */
export function spectrogramOf(samples) {
  const rows = SIZE / 2
  const columns = Math.max(1, Math.min(MOST_COLUMNS, Math.ceil(samples.length / (SIZE / 4))))
  const values = new Float32Array(rows * columns)
  let top = -Infinity
  for (let column = 0; column < columns; column++) {
    const middle = ((column + 0.5) * samples.length) / columns
    const first = Math.round(middle - SIZE / 2)
    const real = hann.map((weight, at) => weight * (samples[first + at] ?? 0))
    const imaginary = new Float32Array(SIZE)
    transform(real, imaginary)
    for (let bin = 0; bin < rows; bin++) {
      const value = Math.log(Math.hypot(real[bin], imaginary[bin]) + 1e-6)
      values[(rows - 1 - bin) * columns + column] = value
      if (value > top) top = value
    }
  }
  return { values, rows, columns, low: top - RANGE, top }
}
