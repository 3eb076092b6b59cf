/** The order that the Kafka examples read, as it lies in the topic `orders` (JSON). */
export interface Order {
  readonly orderId: number
  readonly user: string
  readonly amount: number
  readonly country: string
  /** Epoch ms. */
  readonly ts: number
}
